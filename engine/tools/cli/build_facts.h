// What this program was built from. cmake/build_facts.cmake writes the source, which every build brings up to
// date: a new commit compiles that file and no other.
#pragma once

#include <string_view>

namespace strata {

struct BuildFacts {
  std::string_view version;  ///< "0.1"
  std::string_view type;     ///< "Release", and the sanitizers if there are some
  std::string_view commit;   ///< of git, abbreviated; empty if the tree had no .git
  std::string_view date;     ///< of the commit, "2026-11-28"; without a commit that of the tree
  bool dirty = false;        ///< whether tracked files differed from the commit
};

const BuildFacts& build_facts();

}  // namespace strata
