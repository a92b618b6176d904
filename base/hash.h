// XXH3 checksums (64 bit) of memory and text, one-shot and streaming.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace strata {

std::uint64_t hash_bytes(std::span<const std::byte> bytes);
std::uint64_t hash_text(std::string_view text);
/// Sixteen lower-case hex digits.
std::string hex(std::uint64_t hash);

/// The hash of a sequence of spans as if they were one.
class StreamingHash {
 public:
  StreamingHash();
  ~StreamingHash();
  StreamingHash(const StreamingHash&) = delete;
  StreamingHash& operator=(const StreamingHash&) = delete;

  void update(std::span<const std::byte> bytes);
  std::uint64_t digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace strata
