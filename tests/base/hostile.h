// Obstacles that somebody may put where Strata is about to make a file or a folder. They are links to files
// that must not be touched, links to nowhere and to themselves, pipes, and a file for a folder or a folder
// for a file.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "base/file.h"
#include "tests/base/temporary_folder.h"

namespace strata::test {

/// A folder with a file and a folder in it, which nothing may change.
class Victim {
 public:
  Victim() {
    std::filesystem::create_directory(folder_ / "below");
    std::ofstream(file()) << "precious";
    std::ofstream(folder_ / "below" / "file") << "precious, too";
  }
  std::filesystem::path path() const { return folder_.path(); }
  std::filesystem::path file() const { return folder_ / "file"; }
  void expect_untouched(const std::string& trap) const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path()))
      names.push_back(entry.path().lexically_relative(path()).string());
    std::ranges::sort(names);
    EXPECT_EQ(names, (std::vector<std::string>{"below", "below/file", "file"})) << trap;
    EXPECT_EQ(read_file(file()), "precious") << trap;
    EXPECT_EQ(read_file(path() / "below" / "file"), "precious, too") << trap;
  }

 private:
  TemporaryFolder folder_;
};

struct Trap {
  std::string name;
  std::function<void(const std::filesystem::path& at, const Victim& victim)> set;
};

inline const std::vector<Trap>& link_traps() {
  namespace fs = std::filesystem;
  static const std::vector<Trap> kTraps = {
      {"a link to a folder", [](const fs::path& at, const Victim& v) { fs::create_symlink(v.path(), at); }},
      {"a link to a file", [](const fs::path& at, const Victim& v) { fs::create_symlink(v.file(), at); }},
      {"a link to nowhere",
       [](const fs::path& at, const Victim& v) { fs::create_symlink(v.path() / "new", at); }},
      {"a link to itself", [](const fs::path& at, const Victim&) { fs::create_symlink(at.filename(), at); }},
  };
  return kTraps;
}

inline void set_pipe(const std::filesystem::path& at, const Victim& /*victim*/) {
  ASSERT_EQ(::mkfifo(at.c_str(), 0600), 0);
}

/// What a name that should be a folder's can be instead.
inline std::vector<Trap> folder_traps() {
  std::vector<Trap> traps = link_traps();
  traps.push_back({"a pipe", set_pipe});
  traps.push_back(
      {"a file", [](const std::filesystem::path& at, const Victim&) { std::ofstream(at) << "x"; }});
  return traps;
}

/// What a name that should be a file's can be instead.
inline std::vector<Trap> file_traps() {
  std::vector<Trap> traps = link_traps();
  traps.push_back({"a pipe", set_pipe});
  traps.push_back({"a folder", [](const std::filesystem::path& at, const Victim&) {
                     std::filesystem::create_directory(at);
                     std::ofstream(at / "file") << "the user's own";
                   }});
  traps.push_back({"another name of a file", [](const std::filesystem::path& at, const Victim& victim) {
                     std::filesystem::create_hard_link(victim.file(), at);
                   }});
  return traps;
}

}  // namespace strata::test
