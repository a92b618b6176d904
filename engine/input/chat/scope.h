// The names that a part of a template has set. What a name is not set to here, it is in the scope around.
// Macros keep the scope in which they are defined. Used by one thread.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/input/chat/value.h"

namespace strata::chat {

class Scope {
 public:
  explicit Scope(std::shared_ptr<const Scope> around = nullptr) : around_(std::move(around)) {}

  /// Null if the name is nowhere.
  const Value* find(std::string_view name) const;
  /// `name` must outlive this.
  void set(std::string_view name, Value value);

 private:
  std::shared_ptr<const Scope> around_;
  std::vector<std::pair<std::string_view, Value>> values_;
};

}  // namespace strata::chat
