// Internal to config: names of models, which are names of folders and files, too. Pure functions.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>
#include <vector>

namespace strata {

/// What is wrong with a name: a sentence without it. Empty: nothing.
std::string check_name(const std::string& name);

/// The text with _ for what no name has.
std::string as_name(const std::string& text);

/// The run file's name without its folder and extension, as a name.
std::string name_of_file(const std::string& path);

/// Where a run saves whose run file says nothing of it: out/quickstart of examples/quickstart.yaml.
std::string default_checkpoint_folder(const std::string& run_file);

/// A value in the letters of the file.
std::string value_in_name(const YAML::Node& value);

/// Takes each path's last words, as few as tell it from the others: lr and seed, but optimizer.type and
/// schedule.type.
std::vector<std::string> last_words(const std::vector<std::string>& paths);

/// out/metrics.jsonl of the run is out/metrics.NAME.jsonl of the model.
std::string file_of_model(const std::string& file, const std::string& name);
/// out of the run is out/NAME of the model. Empty if the run has no folder.
std::string folder_of_model(const std::string& folder, const std::string& name);

}  // namespace strata
