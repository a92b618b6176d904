#include "collectives/process_memory.h"

#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <system_error>

#include "base/error.h"

namespace strata {
namespace {

/// The kernel copies somewhat less than 2 GiB at once.
constexpr std::size_t kMostBytes = std::size_t{1} << 30;

/// Returns the bytes copied, at most `bytes`; -1 if none are, and errno says why.
ssize_t read_some(pid_t process, std::uintptr_t from, std::byte* to, std::size_t bytes) {
  const iovec local = {to, std::min(bytes, kMostBytes)};
  const iovec remote = {reinterpret_cast<void*>(from), local.iov_len};  // NOLINT(performance-no-int-to-ptr)
  return process_vm_readv(process, &local, 1, &remote, 1, 0);
}

}  // namespace

ProcessMark mark_of_this_process() {
  static const std::uint64_t token = [] {
    std::random_device random;
    return std::uint64_t{random()} << 32 | random();
  }();
  return {.process = getpid(), .token_at = reinterpret_cast<std::uintptr_t>(&token), .token = token};
}

bool can_read(const ProcessMark& mark) {
  std::uint64_t found = 0;
  const ssize_t bytes =
      read_some(mark.process, mark.token_at, reinterpret_cast<std::byte*>(&found), sizeof found);
  return bytes == sizeof found && found == mark.token;
}

void read_memory(pid_t process, std::uintptr_t from, std::byte* to, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t copied = read_some(process, from + done, to + done, bytes - done);
    if (copied <= 0) {
      throw IoError(fmt::format("cannot read the memory of process {}: {}", process,
                                std::generic_category().message(copied < 0 ? errno : EFAULT)));
    }
    done += static_cast<std::size_t>(copied);
  }
}

}  // namespace strata
