// Stores in folders of their own, for every engine and one or two folders.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/arena.h"
#include "base/error.h"
#include "offload/store.h"
#include "tests/base/temporary_folder.h"
#include "tests/support/drive.h"

namespace strata::test {

/// Aligned memory with numbers that tell every eight bytes of every seed apart.
class Block {
 public:
  explicit Block(Bytes bytes, std::uint64_t seed = 0) : arena_(bytes) {
    const auto words =
        std::span(reinterpret_cast<std::uint64_t*>(arena_.data()), size() / sizeof(std::uint64_t));
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = (seed << 40) + i + 1;
  }
  std::size_t size() const { return static_cast<std::size_t>(arena_.size()); }
  std::span<std::byte> bytes() const { return {arena_.data(), size()}; }
  bool operator==(const Block& other) const {
    return size() == other.size() && std::memcmp(arena_.data(), other.arena_.data(), size()) == 0;
  }

 private:
  Arena arena_;
};

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The sentence of what `call` throws; anything but an Expected fails the test.
template <typename Expected, typename Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const Expected& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

struct StoreKind {
  StoreEngine engine;
  int folders;
};

inline std::vector<StoreKind> all_store_kinds() {
  return {{StoreEngine::io_uring, 1},
          {StoreEngine::io_uring, 2},
          {StoreEngine::threads, 1},
          {StoreEngine::threads, 2}};
}

inline std::string name_of(const ::testing::TestParamInfo<StoreKind>& info) {
  return (info.param.engine == StoreEngine::io_uring ? "io_uring_" : "threads_") +
         std::to_string(info.param.folders);
}

class EveryStore : public ::testing::TestWithParam<StoreKind> {
 protected:
  void SetUp() override {
    for (int i = 0; i < GetParam().folders; ++i) options_.folders.push_back(folders_[i].path().string());
    options_.engine = GetParam().engine;
    options_.bytes = 16 * MiB;
    for (const std::string& folder : options_.folders) {
      if (const std::string reason = why_no_drive(folder, options_.engine); !reason.empty())
        GTEST_SKIP() << reason;
    }
  }
  /// Spill files that the message may name.
  bool names_a_file(const std::string& message) const {
    for (const std::string& folder : options_.folders)
      if (message.find(folder + "/strata-spill/spill") != std::string::npos) return true;
    return false;
  }

  test::TemporaryFolder folders_[2];
  StoreOptions options_;
};

}  // namespace strata::test
