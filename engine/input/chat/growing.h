// Texts and lists that are being made and may become larger than what they are made of: they are refused
// before they grow beyond a rendering's limits. What becomes a value is counted then. Used by one thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/input/chat/meter.h"
#include "engine/input/chat/value.h"

namespace strata::chat {

class GrowingText {
 public:
  explicit GrowingText(const Meter& meter) : meter_(meter) {}

  /// The following throw Problem beyond the meter's limits.
  GrowingText& operator+=(std::string_view more) { return append(1, more); }
  GrowingText& operator+=(char character) { return append(1, std::string_view(&character, 1)); }
  /// `more` as often as `count` says.
  GrowingText& append(std::int64_t count, std::string_view more) {
    meter_.check_bytes(count, std::ssize(more));
    meter_.check_bytes(std::ssize(text_) + count * std::ssize(more));
    for (std::int64_t i = 0; i < count && !more.empty(); ++i) text_ += more;
    return *this;
  }

  std::string take() { return std::move(text_); }

 private:
  const Meter& meter_;
  std::string text_;
};

/// Parts of a text. Each part may become a value.
class GrowingParts {
 public:
  explicit GrowingParts(const Meter& meter) : meter_(meter) {}

  /// Throws Problem beyond the meter's limits.
  void push_back(std::string_view part) {
    meter_.check_bytes((std::ssize(parts_) + 1) * kPartBytes);
    parts_.push_back(part);
  }

  std::int64_t count() const { return std::ssize(parts_); }
  std::vector<std::string_view> take() { return std::move(parts_); }

 private:
  static constexpr std::int64_t kPartBytes = Meter::kValueBytes + static_cast<std::int64_t>(sizeof(Value));

  const Meter& meter_;
  std::vector<std::string_view> parts_;
};

}  // namespace strata::chat
