#include "engine/tools/profile/profile_folder.h"

#include <fmt/format.h>

#include <set>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/json_text.h"
#include "engine/tools/profile/memory_view.h"
#include "engine/tools/profile/page.h"
#include "engine/tools/profile/page_data.h"
#include "engine/tools/profile/summary.h"
#include "engine/tools/profile/trace.h"

namespace strata {
namespace fs = std::filesystem;
namespace {

bool is_of_profile(const std::string& name) {
  return name == "report.html" || name == "trace.pftrace" || name == "summary.json" ||
         (name.starts_with("memory_view") && name.ends_with(".pickle"));
}

/// Makes the folder; links on the way to it are the user's own.
fs::path made(const fs::path& folder, FileSystem& files) {
  files.create_folders(folder);
  return fs::canonical(folder);
}

void check_content(const fs::path& folder) {
  if (!is_there(folder)) return;
  std::error_code error;
  if (!fs::is_directory(folder, error))
    throw ConfigError(fmt::format("{}: is no folder; give another", folder.string()));
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (name.ends_with(".tmp")) name.resize(name.size() - 4);
    if (is_of_profile(name)) continue;
    throw ConfigError(
        fmt::format("{}: has {}, which is of no profile; give a new folder", folder.string(), name));
  }
  if (error)
    throw ConfigError(
        fmt::format("{}: cannot be read ({}); give another folder", folder.string(), error.message()));
}

}  // namespace

void check_profile_folder(const fs::path& folder, FileSystem& files) {
  check_content(folder);
  try {
    const fs::path probe = made(folder, files) / "summary.json.tmp";
    files.remove_all(probe);
    write_file(files, probe, "");
    files.remove_all(probe);
  } catch (const IoError& error) {
    throw ConfigError(fmt::format("{}; give another folder", error.what()));
  }
}

void write_profile_folder(const fs::path& named, const std::string& run,
                          const std::vector<StepProfile>& planned, const std::vector<StepProfile>& measured,
                          FileSystem& files) {
  const fs::path folder = made(named, files);
  replace_file(files, folder / "report.html", make_page(page_data(run, planned, measured)));
  const TraceGroup groups[] = {{"planned", planned}, {"measured", measured}};
  replace_file(files, folder / "trace.pftrace", make_trace(groups));
  nlohmann::json summary = {{"format", "strata profile"},
                            {"version", 1},
                            {"run", run},
                            {"planned", nlohmann::json::array()},
                            {"measured", nlohmann::json::array()}};
  for (const StepProfile& profile : measured) summary["measured"].push_back(summary_of(profile));
  for (std::size_t p = 0; p < planned.size(); ++p) {
    summary["planned"].push_back(summary_of(planned[p]));
    replace_file(files, folder / (p == 0 ? "memory_view.pickle" : fmt::format("memory_view-{}.pickle", p)),
                 make_memory_view(planned[p]));
  }
  replace_file(files, folder / "summary.json", json_text(summary, 2) + "\n");
}

}  // namespace strata
