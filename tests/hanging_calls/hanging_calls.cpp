// Preloaded into the program, this makes a drive hang: one call of the system on a file never returns, nor
// does any after it. STRATA_TEST_HANG=CALL:PART:COUNT hangs from the COUNT-th CALL on (pread, pwrite, write,
// fsync, sync_file_range) on files whose path contains PART; CALL uring is liburing's wait for what its rings
// have begun, whatever the file.
#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

struct io_uring;

namespace {

struct Hang {
  std::string call, part;
  std::int64_t count = 0;
};

const Hang& hang() {
  static const Hang hang = [] {
    const char* given = std::getenv("STRATA_TEST_HANG");
    if (given == nullptr) return Hang{};
    const std::string text = given;
    const std::size_t first = text.find(':'), last = text.rfind(':');
    return Hang{text.substr(0, first), text.substr(first + 1, last - first - 1),
                std::stoll(text.substr(last + 1))};
  }();
  return hang;
}

bool is_on(int descriptor) {
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  return ::readlink(link.c_str(), path.data(), path.size() - 1) > 0 &&
         std::strstr(path.data(), hang().part.c_str()) != nullptr;
}

/// Returns if the call is not to hang.
void meet(const char* call, int descriptor) {
  static std::atomic<std::int64_t> calls = 0;
  if (hang().call != call || (descriptor >= 0 && !is_on(descriptor)) || ++calls < hang().count) return;
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

template <typename Function>
Function* next(Function*, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t pread(int descriptor, void* memory, size_t bytes, off_t offset) {
  meet("pread", descriptor);
  return next(&pread, "pread")(descriptor, memory, bytes, offset);
}

ssize_t pwrite(int descriptor, const void* memory, size_t bytes, off_t offset) {
  meet("pwrite", descriptor);
  return next(&pwrite, "pwrite")(descriptor, memory, bytes, offset);
}

ssize_t write(int descriptor, const void* memory, size_t bytes) {
  meet("write", descriptor);
  return next(&write, "write")(descriptor, memory, bytes);
}

int fsync(int descriptor) {
  meet("fsync", descriptor);
  return next(&fsync, "fsync")(descriptor);
}

int sync_file_range(int descriptor, off_t offset, off_t bytes, unsigned flags) {
  meet("sync_file_range", descriptor);
  return next(&sync_file_range, "sync_file_range")(descriptor, offset, bytes, flags);
}

int io_uring_submit_and_wait(io_uring* ring, unsigned wait) {
  meet("uring", -1);
  return next(&io_uring_submit_and_wait, "io_uring_submit_and_wait")(ring, wait);
}
}
