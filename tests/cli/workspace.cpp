#include "tests/cli/workspace.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>

#include "tests/support/source_folder.h"

namespace strata::test {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// What mpirun needs to know of processes that run one command. With the address sanitizer: Open MPI leaves
/// memory behind, from plugins that no suppression can name any more.
Arguments words_for(int processes) {
  std::string options = "ASAN_OPTIONS=detect_leaks=0";
  if (const char* others = std::getenv("ASAN_OPTIONS")) options += std::string(":") + others;
  return {"-n", std::to_string(processes), "-x", options};
}

}  // namespace

Arguments train(const std::string& run_file, const Arguments& overrides) {
  Arguments arguments = {"train", run_file};
  for (const std::string& override : overrides) arguments.insert(arguments.end(), {"--set", override});
  return arguments;
}

Workspace::Workspace() {
  std::string text;
  for (int i = 0; i < 400; ++i) text += fmt::format("line {} of a small text, {} words long\n", i * i, i % 7);
  write("corpus.txt", text);
  write("run.yaml", run_file() + "checkpoint: none\n");
}

std::string Workspace::run_file() {
  return R"(model:
  architecture: llama
  config: {num_hidden_layers: 3, hidden_size: 32, num_attention_heads: 4, num_key_value_heads: 2,
           intermediate_size: 48, vocab_size: 256}
data: {path: corpus.txt, sequence_length: 24}
train: {steps: 6, batch: 4, microbatch: 2, seed: 3, precision: bf16}
optimizer: {lr: 1e-2}
memory: {device: 512KiB, host: 64MiB}
)";
}

void Workspace::write(const std::string& name, const std::string& content) const {
  std::ofstream(path(name), std::ios::binary) << content;
}

Process Workspace::start(const Arguments& arguments, Process::Options options) const {
  if (options.folder.empty()) options.folder = folder_.path();
  return {STRATA_PROGRAM, arguments, options};
}

Outcome Workspace::strata(const Arguments& arguments, Process::Options options) const {
  return start(arguments, std::move(options)).wait();
}

Outcome Workspace::pasted(const std::string& line) const {
  return Process("/bin/sh", {"-c", line}, {.folder = folder_.path()}).wait();
}

Process Workspace::start_ranks(int ranks, const Arguments& arguments) const {
  Arguments command = words_for(ranks);
  command.emplace_back(STRATA_PROGRAM);
  command.insert(command.end(), arguments.begin(), arguments.end());
  return launch(command);
}

Outcome Workspace::strata_on_ranks(const std::vector<Arguments>& ranks, const Arguments& targets) const {
  Arguments commands;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!commands.empty()) commands.emplace_back(":");
    const Arguments words = words_for(1);
    commands.insert(commands.end(), words.begin(), words.end());
    if (rank < targets.size() && !targets[rank].empty())
      commands.insert(commands.end(), {"env", "STRATA_VECTOR_TARGET=" + targets[rank]});
    commands.emplace_back(STRATA_PROGRAM);
    commands.insert(commands.end(), ranks[rank].begin(), ranks[rank].end());
  }
  return launch(commands).wait();
}

Process Workspace::launch(const Arguments& commands) const {
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  Arguments launch = {"--oversubscribe", "--mca", "mpi_yield_when_idle", "1"};
  launch.insert(launch.end(), commands.begin(), commands.end());
  return {STRATA_MPIRUN, launch, {.folder = folder_.path()}};
}

nlohmann::json Workspace::report(Arguments arguments) const {
  arguments.insert(arguments.end(), {"--json", "-"});
  const Outcome outcome = strata(arguments);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return nlohmann::json::parse(outcome.out);
}

void Workspace::make_model_folder(const std::string& name) const {
  const Arguments overrides = {"train.steps=1", "checkpoint.path=out"};
  ASSERT_EQ(strata(train("run.yaml", overrides)).status, 0);
  const Outcome exported = strata({"export", "run.yaml", name, "--set", "checkpoint.path=out"});
  ASSERT_EQ(exported.status, 0) << exported.err;
}

void Workspace::make_chat_model(const std::string& name) const {
  ASSERT_EQ(strata(train("run.yaml",
                         {"train.steps=1", "checkpoint.path=out-" + name, "model.config.vocab_size=400"}))
                .status,
            0);
  ASSERT_EQ(strata({"export", "out-" + name, name}).status, 0);
  std::filesystem::copy_file(source_folder() / "tests/text/goldens/gpt2.tokenizer.json",
                             path(name) / "tokenizer.json");
  write(
      name + "/tokenizer_config.json",
      R"({"eos_token": "<|endoftext|>", "chat_template":)"
      R"( "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}bot:{% endif %}"})");
}

void expect_sentence(const Outcome& outcome, int status, std::initializer_list<std::string> parts) {
  EXPECT_EQ(outcome.status, status) << outcome.err;
  const std::vector<std::string> lines = lines_of(outcome.err);
  ASSERT_FALSE(lines.empty());
  EXPECT_THAT(lines.back(), ::testing::StartsWith("strata: "));
  for (const std::string& part : parts) EXPECT_THAT(lines.back(), ::testing::HasSubstr(part));
  const auto is_error = [](const std::string& line) { return line.starts_with("strata: "); };
  EXPECT_EQ(std::ranges::count_if(lines, is_error), 1) << outcome.err;
  EXPECT_EQ(outcome.out, "");
}

std::string behind(const std::string& words, const std::string& text) {
  const std::size_t begin = text.find(words);
  if (begin == std::string::npos) {
    ADD_FAILURE() << "nothing says " << words << ": " << text;
    return "";
  }
  const std::string rest = text.substr(begin + words.size());
  return rest.substr(0, rest.find('\n'));
}

std::vector<std::string> keys_of(const nlohmann::json& object) {
  std::vector<std::string> keys;
  for (const auto& item : object.items()) keys.push_back(item.key());
  return keys;
}

std::string bytes_in_sentence(const Outcome& outcome) {
  const std::string sentence = lines_of(outcome.err).back();
  const std::size_t end = sentence.find(" bytes)");
  const std::size_t begin = sentence.rfind('(', end);
  if (end == std::string::npos || begin == std::string::npos) {
    ADD_FAILURE() << "no number of bytes in: " << sentence;
    return "0";
  }
  return sentence.substr(begin + 1, end - begin - 1);
}

}  // namespace strata::test
