// Text that copies share.
#pragma once

#include <memory>
#include <string>
#include <utility>

namespace strata {

/// A text that never changes and costs next to nothing to copy. It is used as a pointer to it.
class SharedText {
 public:
  SharedText() = default;
  SharedText(std::string text) : text_(std::make_shared<const std::string>(std::move(text))) {}
  SharedText(const char* text) : SharedText(std::string(text)) {}

  const std::string& operator*() const {
    static const std::string empty;
    return text_ != nullptr ? *text_ : empty;
  }
  const std::string* operator->() const { return &**this; }
  friend bool operator==(const SharedText& a, const SharedText& b) { return a.text_ == b.text_ || *a == *b; }

 private:
  std::shared_ptr<const std::string> text_;
};

}  // namespace strata
