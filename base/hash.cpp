#include "base/hash.h"

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace strata {

struct StreamingHash::State {
  XXH3_state_t xxh;
};

std::uint64_t hash_bytes(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}
std::uint64_t hash_text(std::string_view text) {
  return XXH3_64bits(text.data(), text.size());
}
std::string hex(std::uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

StreamingHash::StreamingHash() : state_(std::make_unique<State>()) {
  XXH3_64bits_reset(&state_->xxh);
}
StreamingHash::~StreamingHash() = default;
void StreamingHash::update(std::span<const std::byte> bytes) {
  XXH3_64bits_update(&state_->xxh, bytes.data(), bytes.size());
}
std::uint64_t StreamingHash::digest() const {
  return XXH3_64bits_digest(&state_->xxh);
}

}  // namespace strata
