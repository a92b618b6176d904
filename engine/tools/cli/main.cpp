// The strata program. It reads the command line, runs one command, and turns an exception into a sentence and
// an exit status. 0: done. 1: the run failed or was stopped. 2: the run file, the command line, or a file
// that these name is wrong.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/vector_target.h"
#include "engine/config/describe.h"
#include "engine/input/data/mapped_file.h"
#include "engine/tools/cli/command_tree.h"
#include "engine/tools/cli/command_words.h"
#include "engine/tools/cli/commands.h"
#include "engine/tools/cli/help_formatter.h"
#include "engine/tools/cli/limits.h"
#include "engine/tools/cli/manual.h"
#include "engine/tools/cli/own_name.h"
#include "engine/tools/cli/say.h"
#include "engine/tools/cli/standard_output.h"
#include "engine/tools/cli/version.h"
#include "engine/tools/report/wrapped.h"

namespace strata {
namespace {

/// Puts /dev/null where a daemon has closed standard input, output or error. The next file would be opened in
/// its place, and words for people would be written into it.
void open_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) < 0 && errno == EBADF) ::open("/dev/null", O_RDWR);
  }
}

CLI::Option* add_run_file(CLI::App& app, RunFileCommand& command) {
  app.add_option("--set", command.overrides, "override a key of the run file: --set train.steps=10")
      ->take_all();
  return app.add_option("run_file", command.run_file, "the run file (YAML)");
}

void add_planning(CLI::App& app, PlanningCommand& command) {
  app.add_option("--json", command.json, "write the figures as JSON to this file, '-' for standard output");
  CLI::Option* machine =
      app.add_option("--machine", command.machine,
                     "plan by the rates of this machine, with the run file's own budgets and device");
  app.add_option("--on", command.on,
                 "plan for all that this machine has, in place of the run file's budgets and device: a "
                 "profile, or the name of one that comes with the program")
      ->excludes(machine);
  app.add_option("--ranks", command.ranks,
                 "ranks to plan for, as mpirun -n starts them; left out: 1, or those of a node of --on")
      ->check(CLI::Range(1, 1'000'000));
}

/// Not nan, either, which CLI::Range takes.
CLI::Validator within(double least, double most) {
  const auto complaint = [least, most](const std::string& text) -> std::string {
    const double number = std::strtod(text.c_str(), nullptr);
    return number >= least && number <= most ? "" : fmt::format("{} is not in [{}, {}]", text, least, most);
  };
  return {complaint, fmt::format("FLOAT in [{} - {}]", least, most)};
}

void add_model(CLI::App& app, ModelCommand& command) {
  command.name = app.get_name();
  app.add_option("model", command.model,
                 "a Hugging Face folder, a checkpoint (step-00000100), or a folder of checkpoints: its "
                 "newest is taken; or a PEFT folder, whose model is taken where it says")
      ->required();
  app.add_option("--adapter", command.adapter,
                 "adapters on the model: a PEFT folder, or checkpoints of a run with adapters");
  app.add_flag("--ema", command.ema,
               "moving averages of the checkpoint's weights, as train.ema has kept them");
  app.add_option("--tokenizer", command.tokenizer,
                 "a model's folder, its tokenizer.json, or 'bytes'; left out: the model's own");
  app.add_option("--begin-token", command.begin_token,
                 "as data.begin_token; left out: as in the checkpoint's run, else auto")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  app.add_option("--precision", command.precision,
                 "type of weights and products; auto: bf16 if the device has instructions for it, else fp32")
      ->check(CLI::IsMember({"auto", "fp32", "bf16", "fp16", "fp8"}))
      ->default_val("auto");
  app.add_option("--device", command.device, "the device that computes")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->default_val("cpu");
  app.add_option("--threads", command.threads, "threads that compute; 0: one per core")
      ->check(CLI::Range(0, 4096));
  app.add_option("--device-memory", command.device_memory,
                 "budget on the device, as in 8GiB; units that do not fit are streamed")
      ->default_val("unlimited");
  app.add_option("--host-memory", command.host_memory,
                 "budget on the host for streamed units; if they do not fit, they are read from the model's "
                 "files each time")
      ->default_val("unlimited");
  app.add_option("--json", command.json, "write a report as JSON to this file, '-' for standard output");
}

void add_documents(CLI::App& app, DocumentsCommand& command) {
  app.add_option("--format", command.format, "what the files hold, as data.format")
      ->check(CLI::IsMember({"auto", "text", "records"}))
      ->default_val("auto");
  app.add_option("--field", command.fields,
                 "what records call a field, as data.fields: messages=dialogue; may be given several times")
      ->take_all()
      ->expected(1);
}

/// What is taken where an option is left out, as the help says it.
struct SamplingDefaults {
  const char *temperature, *top_p, *top_k;
};

void add_sampling(CLI::App& app, SamplingCommand& command, const SamplingDefaults& defaults) {
  app.add_option("--max-tokens", command.max_tokens, "most tokens after a prompt")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30))
      ->default_val(command.max_tokens);
  app.add_option("--temperature", command.temperature,
                 "divide logits before a token is drawn; 0: the likeliest token")
      ->check(within(0, 1000))
      ->default_str(defaults.temperature);
  app.add_option("--top-p", command.top_p,
                 "draw from the fewest likeliest tokens whose probabilities reach this number")
      ->check(within(0, 1))
      ->default_str(defaults.top_p);
  app.add_option("--top-k", command.top_k, "draw from at most this number of the likeliest tokens; 0: all")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 30))
      ->default_str(defaults.top_k);
  app.add_option("--seed", command.seed, "seed of the draws: the same seed draws the same tokens");
}

CLI::App* add_generate(CLI::App& app, GenerateCommand& command) {
  CLI::App* generate = app.add_subcommand("generate", "continue prompts with a model");
  add_model(*generate, command);
  generate->add_option("--prompt", command.prompts, "a text to continue; may be given several times")
      ->take_all()
      ->expected(1);
  generate->add_option("--prompt-file", command.prompt_file, "a file whose text is one more prompt");
  generate->add_flag("--chat", command.chat,
                     "prompts are messages of a user, written by the model's chat template");
  add_sampling(*generate, command, {"0", "1", "0"});
  return generate;
}

CLI::App* add_chat(CLI::App& app, ChatCommand& command) {
  CLI::App* chat = app.add_subcommand("chat", "have a conversation with a model, by its chat template");
  add_model(*chat, command);
  chat->add_option("--system", command.system, "the system message that the conversation begins with");
  command.max_tokens = 2048;
  add_sampling(*chat, command, {"the model's, else 0.7", "the model's, else 1", "the model's, else 0"});
  return chat;
}

void add_export(CLI::App& app, ExportCommand& command) {
  CLI::App* added = app.add_subcommand("export", "write a checkpoint as a Hugging Face folder");
  add_run_file(*added, command)
      ->description(
          "a checkpoint (step-00000100), or a folder of checkpoints: its newest is taken; or a run file "
          "(YAML), for its newest checkpoint")
      ->required();
  added->add_option("folder", command.folder, "the folder to write; must be empty or not exist")->required();
  added->add_flag("--merge", command.merge, "add adapters to the model and write the whole model");
  added->add_flag("--ema", command.ema, "write moving averages of the weights, as train.ema has kept them");
  added->add_option("--base", command.base, "the model beneath adapters, if it is not where the run had it");
  added->add_option("--dtype", command.dtype, "type of the tensors")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->default_val("fp32");
}

CLI::App* add_evaluate(CLI::App& app, EvaluateCommand& command) {
  CLI::App* evaluate =
      app.add_subcommand("evaluate", "print mean loss and perplexity of files under a model");
  add_model(*evaluate, command);
  evaluate
      ->add_option("--data", command.data,
                   "files, or patterns as in data.path: texts, JSON records, or .bin files of token ids; "
                   "tokens that training leaves out do not count")
      ->required()
      ->take_all();
  add_documents(*evaluate, command);
  evaluate
      ->add_option("--sequence", command.sequence,
                   "most tokens of a window; longer documents are cut into windows; 0: the model's longest "
                   "sequence, but at most 1024")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 30));
  evaluate->add_option("--batch", command.batch, "windows that are computed together")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20))
      ->default_val(command.batch);
  evaluate->add_option("--token-bytes", command.token_bytes, "width of an id in .bin files without a header")
      ->check(CLI::IsMember({2, 4, 8}))
      ->default_val(command.token_bytes);
  return evaluate;
}

/// command_words() reads `version` and `help`, which are commands so that they are listed and found.
void add_version_and_help(CLI::App& app, std::string& command) {
  app.set_version_flag("-V,--version", version_text, "print version, commit, compiler and libraries and end");
  app.add_subcommand("version", "print version, commit, compiler and libraries");
  CLI::App* help = app.add_subcommand("help", "print the options of a command");
  help->add_option("command", command, "the command; left out: print the list of commands");
}

/// For the build, which installs what the command writes.
CLI::App* add_manual(CLI::App& app, std::string& folder) {
  CLI::App* manual = app.add_subcommand("manual", "write manual pages and completions of shells");
  manual->add_option("folder", folder, "the folder to write")->required();
  return manual->group("");
}

int run(int argc, char** argv) {
  CLI::App app("Strata trains models that are larger than the device's memory.");
  app.formatter(std::make_shared<HelpFormatter>());  // before its commands, which take it over
  app.require_subcommand(1);

  TrainCommand train;
  CLI::App* train_app = app.add_subcommand("train", "train a run file; resumes from its newest checkpoint");
  add_run_file(*train_app, train)->required();
  train_app->add_option("--json", train.json,
                        "write the report as JSON to this file, '-' for standard output");
  train_app->add_option("--profile", train.profile,
                        "write one of the first steps, as planned and as measured, to this folder (see plan "
                        "--profile)");
  train_app->add_flag("--verbose", train.verbose,
                      "print all of the plan before the run, and all measurements after it");
  train_app->add_flag("--fresh", train.fresh, "begin anew instead of resuming from a checkpoint");
  train_app->add_flag("--dump-config", train.dump_config, "print the full effective run file and end");
  train_app->add_flag_callback(
      "--help-config",
      [] {
        std::cout << help_config(std::min(kWidestHelp, output_columns(kWidestHelp)));
        throw CLI::Success();
      },
      "print every key of the run file and end");

  PlanCommand plan;
  CLI::App* plan_app =
      app.add_subcommand("plan", "print budgets, peaks, traffic and the program; touches no device");
  add_run_file(*plan_app, plan)->required();
  add_planning(*plan_app, plan);
  plan_app->add_option(
      "--profile", plan.profile,
      "write the planned step to this folder: report.html (where memory and time go), trace.pftrace for "
      "ui.perfetto.dev, memory_view.pickle for PyTorch's memory_viz, summary.json");
  plan_app->add_flag(
      "--search", plan.search,
      "find the layout and microbatch with the shortest step on --ranks; keys that the run file gives stay");
  plan_app
      ->add_flag("--simulate", plan.simulate,
                 "print what a step takes, which lanes wait, and what more memory or faster links would save")
      ->excludes("--search");
  plan_app->add_option("--trace", plan.trace,
                       "write the planned timeline of a step to this file, for ui.perfetto.dev");
  plan_app->add_flag("--program", plan.program, "print the program of a step");
  plan_app->add_flag("--schedule", plan.schedule,
                     "print the order of a step's work, one visit of a unit per line");

  ProfileCommand profile;
  CLI::App* profile_app = app.add_subcommand(
      "profile", "run a few steps and write a page of where memory and time go; saves nothing else");
  CLI::Option* profiled_run = add_run_file(*profile_app, profile);
  profile_app->add_option("--out", profile.out,
                          "the folder to write (report.html, trace.pftrace, memory_view.pickle, "
                          "summary.json); with --compare the file");
  profile_app
      ->add_option("--steps", profile.steps, "steps to run; the third is measured, or the last of fewer")
      ->check(CLI::Range(1, 1'000'000))
      ->default_val(profile.steps);
  profile_app->add_option("--compare", profile.compared, "compare two folders of profiles instead of running")
      ->expected(2)
      ->excludes(profiled_run);

  PlanningCommand explain;
  CLI::App* explain_app = app.add_subcommand(
      "explain", "say what lives where and why, what bounds a step, and what would help most");
  add_run_file(*explain_app, explain)->required();
  add_planning(*explain_app, explain);

  DoctorCommand doctor;
  CLI::App* doctor_app =
      app.add_subcommand("doctor", "say what this machine has, and what is missing or slow");
  add_run_file(*doctor_app, doctor)->description("the run file (YAML) whose device and drives are measured");
  doctor_app
      ->add_option("--drive", doctor.folders, "a folder on a drive to measure, in place of the run file's")
      ->take_all();
  auto* rates_file = doctor_app->add_option("--profile", doctor.profile,
                                            "write the machine's rates to this file, for plan.machine");
  doctor_app
      ->add_option(
          "--learn", doctor.learn,
          "correct these rates by a run that was planned by a profile: the report of strata train --json")
      ->needs(rates_file);
  doctor_app
      ->add_option("--ranks", doctor.ranks, "ranks whose layouts the profile is for, with plan.search auto")
      ->check(CLI::Range(1, 1'000'000));

  ExportCommand export_command;
  add_export(app, export_command);

  TokenizeCommand tokenize;
  CLI::App* tokenize_app = app.add_subcommand(
      "tokenize",
      "write texts as a file of token ids, for data.path with data.tokenizer none; or show a run's samples");
  tokenize_app
      ->add_option("tokenizer", tokenize.tokenizer,
                   "a model's Hugging Face folder, or a tokenizer.json; with --show a run file")
      ->required();
  tokenize_app->add_option("prefix", tokenize.prefix, "the files to write are PREFIX.bin and PREFIX.idx");
  tokenize_app->add_option("texts", tokenize.texts, "files of UTF-8 text, or patterns as in data.path");
  tokenize_app
      ->add_option("--show", tokenize.show,
                   "print this number of a run file's first samples, with what is trained on; writes nothing")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  tokenize_app->add_option("--set", tokenize.overrides, "with --show: override a key of the run file")
      ->take_all()
      ->expected(1);
  CLI::Option* end = tokenize_app->add_option(
      "--end", tokenize.end,
      "the token after each text; left out: eos_token of the folder's tokenizer_config.json");
  tokenize_app->add_flag("--no-end", tokenize.has_no_end, "put no token after texts")->excludes(end);
  add_documents(*tokenize_app, tokenize);
  tokenize_app
      ->add_option("--begin-token", tokenize.begin_token, "what each text begins with, as data.begin_token")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->default_val("auto");
  tokenize_app
      ->add_option("--threads", tokenize.threads, "texts that are encoded at the same time; 0: one per core")
      ->check(CLI::Range(0, 4096));

  GenerateCommand generate;
  CLI::App* generate_app = add_generate(app, generate);
  ChatCommand chat;
  CLI::App* chat_app = add_chat(app, chat);
  EvaluateCommand evaluate;
  CLI::App* evaluate_app = add_evaluate(app, evaluate);

  std::string helped_command;
  add_version_and_help(app, helped_command);
  std::string manual_folder;
  CLI::App* manual_app = add_manual(app, manual_folder);
  app.footer(fmt::format("Begin with {}", first_command()));  // after its commands, which would take it over
  const std::vector<const char*> words = command_words(app, argc, argv);

  try {
    app.parse(static_cast<int>(words.size()), words.data());
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help and the like
    throw ConfigError(std::string(error.what()) + suggest_option(app) +
                      fmt::format("; {} and {} list what there is", command_line({"--help"}),
                                  command_line({"COMMAND", "--help"})));
  }
  if (manual_app->parsed()) return write_manual(describe_commands(app), manual_folder);
  if (train_app->parsed()) return run_train(train);
  if (plan_app->parsed()) return run_plan(plan);
  if (profile_app->parsed()) return run_profile(profile);
  if (explain_app->parsed()) return run_explain(explain);
  if (doctor_app->parsed()) return run_doctor(doctor);
  if (tokenize_app->parsed()) return run_tokenize(tokenize);
  if (generate_app->parsed()) return run_generate(generate);
  if (chat_app->parsed()) return run_chat(chat);
  if (evaluate_app->parsed()) return run_evaluate(evaluate);
  return run_export(export_command);
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) {
  strata::open_standard_descriptors();
  strata::StandardOutput output;
  strata::leave_if_cut_short(strata::leave);
  try {
    strata::prepare_stacks();
    static_cast<void>(strata::vector_target());  // throws if the environment names none
    const int status = strata::run(argc, argv);
    if (status == 0) output.finish();
    return status;
  } catch (const strata::ConfigError& error) {
    strata::say(error.what());
    return 2;
  } catch (const std::exception& error) {
    strata::say(strata::sentence_of(error));
    return 1;
  }
}
