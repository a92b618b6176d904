// What a command writes must be none of what it reads: a report in place of the data would be the end of the
// data. Plain functions.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/cli/commands.h"
#include "engine/config/run_models.h"

namespace strata {

/// A file that a command writes, by the value of an option or a key. Empty or "-": none.
struct CommandOutput {
  std::string option, path;
};

/// What a command reads: a file, or a folder, of which all files but logs (.jsonl) are meant. Nothing need be
/// there.
struct CommandInput {
  std::string option;
  std::filesystem::path path;
};
using CommandInputs = std::vector<CommandInput>;

/// Throws ConfigError if an output is a file that is there and is an input, by whatever name. `find_inputs`
/// is asked only if one of the outputs is there. Call it before an output is opened.
void refuse_overwriting(const std::vector<CommandOutput>& outputs,
                        const std::function<CommandInputs()>& find_inputs);

/// The outputs that the run file names, but for report.trace.path: only an earlier trace is written over.
std::vector<CommandOutput> outputs_of(const RunModels& run);
/// The run file, its models and their data.
CommandInputs inputs_of(const RunFileCommand& command, const RunModels& run);
/// The model that is read from `folder`, and its tokenizer.
CommandInputs inputs_of(const ModelCommand& command, const std::filesystem::path& folder);
/// Files of data, with what Megatron has beside them.
void add_data(CommandInputs& inputs, std::string_view option, const std::vector<std::string>& files);

}  // namespace strata
