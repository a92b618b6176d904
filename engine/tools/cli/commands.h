// The commands of the strata program. Each returns the exit status, or throws an Error that main() prints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace strata {

/// What all commands take.
struct RunFileCommand {
  std::string run_file;
  std::vector<std::string> overrides;  ///< --set a.b=c

  /// "build/strata plan run.yaml --set 'a.b=c'", as command_line() writes it.
  std::string line(std::string_view name) const;
};

struct TrainCommand : RunFileCommand {
  std::string json;     ///< report file; empty: none, "-": standard output
  std::string profile;  ///< folder for a profile; empty: none
  bool fresh = false;
  bool dump_config = false;
  bool verbose = false;             ///< says all of the plan, the machine and the measurements
  std::int64_t profiled_steps = 0;  ///< if more than 0, the run has this many steps, for the profile alone
};
int run_train(const TrainCommand& command);

struct ProfileCommand : RunFileCommand {
  std::string out;  ///< folder of a profile, or file of a comparison
  std::int64_t steps = 4;
  std::vector<std::string> compared;  ///< two folders of profiles, instead of a run file
};
int run_profile(const ProfileCommand& command);

/// What commands take that plan a run and touch no device.
struct PlanningCommand : RunFileCommand {
  std::string machine;     ///< a profile whose rates count in place of plan.machine's; empty: none
  std::string on;          ///< a machine to plan for with all that it has; empty: the run file says it
  std::int64_t ranks = 0;  ///< of the run; 0: 1, or as many as a node of `on` has
  std::string json;        ///< report file; empty: none, "-": standard output

  /// As RunFileCommand::line(), with these options.
  std::string line(std::string_view name) const;
};

struct PlanCommand : PlanningCommand {
  std::string profile;  ///< folder for a profile; empty: none
  bool program = false, schedule = false;
  bool search = false;  ///< for a layout
  bool simulate = false;
  std::string trace;  ///< file for the planned timeline; empty: none
};
int run_plan(const PlanCommand& command);

int run_explain(const PlanningCommand& command);

/// Looks at the run file's device, precision and drives; without one at the CPU.
struct DoctorCommand : RunFileCommand {
  std::vector<std::string> folders;  ///< on drives, instead of the run file's
  std::string profile;               ///< file for the machine's rates; empty: none
  std::string learn;                 ///< report of a run that corrects these; empty: none
  std::int64_t ranks = 1;            ///< whose layouts are looked at, if plan.search is to choose one
};
int run_doctor(const DoctorCommand& command);

/// `run_file` may be a checkpoint or a folder of checkpoints instead.
struct ExportCommand : RunFileCommand {
  std::string folder;
  std::string base;    ///< the model beneath adapters; empty: as the run file or the checkpoint says
  std::string dtype;   ///< "fp32" or "bf16"
  bool merge = false;  ///< adapters into the model, instead of a folder of adapters
  bool ema = false;    ///< moving averages of weights, in place of the weights
};
int run_export(const ExportCommand& command);

/// How files are read as documents, where no run file says it.
struct DocumentsCommand {
  std::string format;               ///< of RunConfig::data
  std::vector<std::string> fields;  ///< FIELD=KEY, as data.fields
};

/// Text as a file of token ids, which needs no run; or the samples of a run, to look at.
struct TokenizeCommand : DocumentsCommand {
  std::int64_t show = 0;  ///< samples of a run; its run file then stands in the tokenizer's place
  std::vector<std::string> overrides;  ///< of the run file
  std::string tokenizer;               ///< a model's folder, or its tokenizer.json
  std::string prefix;                  ///< of the files to write
  std::vector<std::string> texts;
  std::string end;           ///< the token behind each text; empty: the folder's eos_token
  bool has_no_end = false;   ///< there is none
  std::string begin_token;   ///< of data.begin_token
  std::int64_t threads = 0;  ///< 0: one per core
};
int run_tokenize(const TokenizeCommand& command);

/// What commands take that use a model without a run.
struct ModelCommand {
  std::string name;       ///< of the command, as it is typed
  std::string model;      ///< a folder of Hugging Face, a checkpoint or a folder of checkpoints
  std::string adapter;    ///< a folder of PEFT, or checkpoints of adapters; empty: none, or `model` has them
  bool ema = false;       ///< a checkpoint's moving averages of weights, in place of the weights
  std::string tokenizer;  ///< a folder, its tokenizer.json, or "bytes"; empty: the model's folder
  std::string begin_token;    ///< of data.begin_token; empty: that of the checkpoint's run, or auto
  std::string precision;      ///< of RunConfig::train, or "auto"
  std::string device;         ///< "cpu" or "cuda"
  std::int64_t threads = 0;   ///< 0: one per core
  std::string device_memory;  ///< budgets, as base/bytes.h reads them
  std::string host_memory;    ///< beside the device's
  std::string json;           ///< report file; empty: none, "-": standard output
};

/// How tokens are chosen. What is not given is for the command to say.
struct SamplingCommand {
  std::int64_t max_tokens = 256;
  std::optional<double> temperature, top_p;
  std::optional<std::int64_t> top_k;
  std::uint64_t seed = 0;
};

struct GenerateCommand : ModelCommand, SamplingCommand {
  std::vector<std::string> prompts;
  std::string prompt_file;  ///< whose text is one more prompt; empty: none
  bool chat = false;        ///< prompts are messages of a user
};
int run_generate(const GenerateCommand& command);

/// Reads messages from standard input.
struct ChatCommand : ModelCommand, SamplingCommand {
  std::string system;  ///< the message that the conversation begins with; empty: none
};
int run_chat(const ChatCommand& command);

struct EvaluateCommand : ModelCommand, DocumentsCommand {
  std::vector<std::string> data;
  std::int64_t sequence = 0;  ///< tokens of a window; 0: the model's longest, at most 1024
  std::int64_t batch = 4;     ///< windows that are computed together
  std::int64_t token_bytes = 2;
};
int run_evaluate(const EvaluateCommand& command);

}  // namespace strata
