// A FileSystem in which the n-th read operation fails with an error of the system's, once or from then on.
#pragma once

#include <atomic>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "base/system_error.h"
#include "tests/base/faulty_file_system.h"

namespace strata::test {

class UnreadableFileSystem : public FaultyFileSystem {
 public:
  enum class Lasts : std::uint8_t { once, for_ever };

  explicit UnreadableFileSystem(int fail_at = kNever, int error = 0, Lasts lasts = Lasts::once)
      : fail_at_(fail_at), error_(error), lasts_(lasts) {}

  int reads() const { return reads_; }

  int open(const std::filesystem::path& path) override {
    step("open", path);
    return FileSystem::open(path);
  }
  std::int64_t size(int descriptor, const std::filesystem::path& path) override {
    step("stat", path);
    return FileSystem::size(descriptor, path);
  }
  std::size_t read(int descriptor, std::int64_t offset, std::span<std::byte> out,
                   const std::filesystem::path& path) override {
    step("read", path);
    return FileSystem::read(descriptor, offset, out, path);
  }
  bool exists(const std::filesystem::path& path) override {
    step("stat", path);
    return FileSystem::exists(path);
  }
  std::vector<std::string> list(const std::filesystem::path& folder) override {
    step("list", folder);
    return FileSystem::list(folder);
  }
  Bytes free_bytes(const std::filesystem::path& path) override {
    step("stat the filesystem of", path);
    return FileSystem::free_bytes(path);
  }

 private:
  void step(const char* operation, const std::filesystem::path& path) {
    const int now = reads_++;
    if (now == fail_at_ || (now > fail_at_ && lasts_ == Lasts::for_ever))
      throw_system_error(operation, path, error_);
  }

  int fail_at_, error_;
  Lasts lasts_;
  int reads_ = 0;
};

}  // namespace strata::test
