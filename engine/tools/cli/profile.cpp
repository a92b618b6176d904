// strata profile: a few steps of a run for the page alone, or two profiles on one page.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>

#include "base/error.h"
#include "base/file.h"
#include "base/watchdog.h"
#include "engine/tools/cli/commands.h"
#include "engine/tools/cli/overwriting.h"
#include "engine/tools/cli/say.h"
#include "engine/tools/profile/compare.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

int compare(const ProfileCommand& command) {
  const Watchdog watchdog(Watchdog::kDefaultSeconds, leave);
  const fs::path file = command.out.empty() ? "comparison.html" : command.out;
  std::error_code error;
  if (fs::is_directory(file, error))
    throw ConfigError(fmt::format("--out: {} is a folder; a comparison is one file, such as comparison.html",
                                  file.string()));
  refuse_overwriting(
      {{{"--out", file, true}}, {}, [&command] {
         return CommandInputs{{"--compare", command.compared[0]}, {"--compare", command.compared[1]}};
       }});
  const std::string page = comparison_page(command.compared[0], command.compared[1]);
  replace_file(FileSystem::real(), fs::weakly_canonical(file), page);
  std::cerr << fmt::format("compared {}; open it in a browser\n",
                           fs::absolute(file).lexically_normal().string());
  return 0;
}

}  // namespace

int run_profile(const ProfileCommand& command) {
  if (!command.compared.empty()) return compare(command);
  if (command.run_file.empty())
    throw ConfigError("profile: give a run file and --out DIR, or --compare and two folders of profiles");
  if (command.out.empty())
    throw ConfigError("--out: give the folder to write, as in strata profile RUN.yaml --out out/profile");
  TrainCommand training;
  training.run_file = command.run_file;
  training.overrides = command.overrides;
  training.profile = command.out;
  training.fresh = true;
  training.profiled_steps = command.steps;
  return run_train(training);
}

}  // namespace strata
