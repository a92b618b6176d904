// Internal to config: what other tools call our keys and their values, as plain tables. foreign_answers.h
// looks things up in them. Names are in small letters with _ for - and spaces between them. Immutable; read
// from any thread.
#pragma once

#include <span>
#include <string_view>

namespace strata {

/// Keys of other tools that one sentence answers.
struct ForeignKey {
  /// A name without a dot stands in any section, one with dots is the end of a whole path.
  std::string_view names;
  /// "train.batch", or "adapter.type: dora" if a value belongs to it; empty: there is none.
  std::string_view ours;
  /// What differs, or what there is in its place.
  std::string_view remark;
};
std::span<const ForeignKey> foreign_keys();

/// Values of other tools for one of our keys.
struct ForeignValue {
  std::string_view key;
  std::string_view values;  ///< "*": all that the key does not know
  std::string_view answer;  ///< "write bf16"
};
std::span<const ForeignValue> foreign_values();

/// A tool whose files are told by keys at their top that no other tool and no run file of ours has there.
struct ForeignTool {
  std::string_view name;
  std::string_view page;  ///< of the documentation
  std::string_view keys;
};
std::span<const ForeignTool> foreign_tools();

}  // namespace strata
