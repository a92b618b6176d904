// Refuses outputs of a command that would replace its inputs, a run's own files, or another output. A report
// in place of the data or of a checkpoint would destroy them. Plain functions.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/run_models.h"
#include "engine/tools/cli/commands.h"

namespace strata {

/// A file or a folder that is written, by the value of an option or a key. Empty or "-": none.
struct CommandOutput {
  std::string option, path;
  bool is_replaced = false;  ///< by a new file
};

/// What a command reads: a file, or all files of a folder but logs (.jsonl). Nothing need be there.
struct CommandInput {
  std::string option;
  std::filesystem::path path;
};
using CommandInputs = std::vector<CommandInput>;

/// A folder in which names are taken, whether or not anything has them yet: `owns` gets a path in the folder.
struct OwnedFolder {
  std::string option;
  std::filesystem::path path;
  bool (*owns)(const std::filesystem::path& below);
};

/// All that a command and the run that it is about have on the disk.
struct CommandFiles {
  std::vector<CommandOutput> outputs;
  std::vector<OwnedFolder> owned;
  std::function<CommandInputs()> find_inputs = {};  ///< asked only if an output is there; empty: no inputs
};

/// Throws ConfigError if an output
/// - is an input that is there, by whatever name;
/// - is another output;
/// - lies in a checkpoint, or among the files that a folder owns;
/// - would replace something that is no file, such as /dev/null.
/// Call it before an output is opened.
void refuse_overwriting(const CommandFiles& files);

/// What the run of a run file reads, writes and owns. REQUIRES: both outlive the result.
CommandFiles files_of(const RunFileCommand& command, const RunModels& run);
/// A folder of checkpoints, with the names that these take.
OwnedFolder checkpoints_in(const std::filesystem::path& folder);
/// Adds the folder of a profile, which is the value of `option`, and nobody else's. Empty: none.
void add_profile(CommandFiles& files, std::string_view option, const std::string& folder);

/// The model that is read from `folder`, and its tokenizer.
CommandInputs inputs_of(const ModelCommand& command, const std::filesystem::path& folder);
/// Files of data, with what Megatron has beside them.
void add_data(CommandInputs& inputs, std::string_view option, const std::vector<std::string>& files);

}  // namespace strata
