#include "tests/plan/support.h"

#include <fmt/format.h>

#include <cmath>
#include <regex>

#include "base/error.h"
#include "base/hash.h"
#include "base/precision.h"
#include "engine/config/run_config.h"
#include "engine/model/build_model.h"
#include "engine/model/model.h"
#include "engine/plan/passes/tier_pair.h"
#include "engine/plan/program/rounds.h"

namespace strata::test {
namespace {

/// Where values are kept: by buffer, or by the granules of bytes that the buffer covers.
class SymbolicMemory {
 public:
  virtual ~SymbolicMemory() = default;
  virtual std::uint64_t read(BufferId id) const = 0;
  virtual void write(BufferId id, std::uint64_t value) = 0;
};

class BufferMemory : public SymbolicMemory {
 public:
  explicit BufferMemory(const Program& program) : values_(program.buffers.size()) {}
  std::uint64_t read(BufferId id) const override { return values_[static_cast<std::size_t>(id)]; }
  void write(BufferId id, std::uint64_t value) override { values_[static_cast<std::size_t>(id)] = value; }

 private:
  std::vector<std::uint64_t> values_;
};

class ByteMemory : public SymbolicMemory {
 public:
  explicit ByteMemory(const Program& program) : program_(program) {
    for (const Tier tier : kTiers) {
      granules_[tier].resize(static_cast<std::size_t>(tier_use(program, tier).peak_bytes / kBufferAlignment));
    }
  }
  std::uint64_t read(BufferId id) const override {
    const auto [first, count] = range(id);
    const auto& tier = granules_[program_.buffer(id).tier];
    std::uint64_t value = tier[first];
    for (std::size_t g = first; g < first + count; ++g) {
      if (tier[g] != value) return hash_text(fmt::format("torn {} {}", value, tier[g]));
    }
    return value;
  }
  void write(BufferId id, std::uint64_t value) override {
    const auto [first, count] = range(id);
    auto& tier = granules_[program_.buffer(id).tier];
    std::fill_n(tier.begin() + static_cast<std::ptrdiff_t>(first), count, value);
  }

 private:
  std::pair<std::size_t, std::size_t> range(BufferId id) const {
    const Buffer& buffer = program_.buffer(id);
    return {static_cast<std::size_t>(buffer.offset / kBufferAlignment),
            static_cast<std::size_t>(buffer.bytes / kBufferAlignment)};
  }
  const Program& program_;
  EnumArray<Tier, std::vector<std::uint64_t>> granules_;
};

void perform(const Program& program, const Instruction& instruction, std::int64_t round, const Rounds& rounds,
             SymbolicMemory& memory, SymbolicState& saved) {
  if (!rounds.performs(instruction, round)) return;
  const std::int64_t step = rounds.step_of(instruction, round);
  const std::string unit = instruction.unit < 0 ? fmt::format("model {}", instruction.model)
                                                : program.units[static_cast<std::size_t>(instruction.unit)];
  if (instruction.operation == Operation::save) {
    const Operand& operand = instruction.reads[0];
    const std::string piece =
        instruction.piece.is_all() ? "" : fmt::format(" from {}", instruction.piece.first);
    saved[fmt::format("{} of {}{} at step {}", name_of(operand.role), unit, piece, step)] =
        memory.read(operand.buffer);
  }
  if (kDevicePair.is_transfer(instruction) || kHostPair.is_transfer(instruction)) {
    memory.write(instruction.writes[0].buffer, memory.read(instruction.reads[0].buffer));
    return;
  }
  std::string inputs = fmt::format("{} {} {} {}", name_of(instruction.operation), unit,
                                   instruction.microbatch, instruction.piece.first);
  const bool is_from_outside =
      instruction.operation == Operation::load_data || instruction.operation == Operation::receive;
  if (is_from_outside) inputs += fmt::format(" model {} step {}", instruction.model, step);
  for (const Operand& operand : instruction.reads) {
    inputs += fmt::format(" {}={}", name_of(operand.role), memory.read(operand.buffer));
  }
  for (const Operand& operand : instruction.writes) {
    memory.write(operand.buffer, hash_text(fmt::format("{} -> {}", inputs, name_of(operand.role))));
  }
}

/// How many rounds a run has.
std::int64_t count_of(const Rounds& rounds, const Program& program) {
  std::int64_t steps = 0;
  for (const Rounds::OfModel& model : rounds.models) steps = std::max(steps, model.steps.count);
  return steps + rounds_behind(program);
}

void initialise(const Program& program, SymbolicMemory& memory) {
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    if (program.buffers[b].persistent)
      memory.write(static_cast<BufferId>(b), hash_text(*program.buffers[b].name));
  }
}

SymbolicState final_state(const Program& program, const SymbolicMemory& memory, SymbolicState state) {
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    if (program.buffers[b].persistent)
      state[*program.buffers[b].name] = memory.read(static_cast<BufferId>(b));
  }
  return state;
}

}  // namespace

Model tiny_model(std::int64_t layers, bool tied, std::int64_t vocabulary,
                 const std::vector<std::string>& freeze, Rounding rounding) {
  Architecture a;
  a.model_type = "llama";
  a.family = Family::llama;
  a.layers = layers;
  a.hidden = 16;
  a.heads = 2;
  a.kv_heads = 1;
  a.head_dimension = 8;
  a.intermediate = 24;
  a.vocabulary = vocabulary;
  a.max_positions = 64;
  a.tied_head = tied;
  return build_model(a, {.rounding = rounding, .freeze = freeze});
}

std::vector<StrategyOptions> with_late_updates(std::vector<StrategyOptions> options) {
  for (std::size_t i = 0, count = options.size(); i < count; ++i) {
    if (!options[i].clips && options[i].precision != DType::fp16) continue;
    options.push_back(options[i]);
    options.back().updates_late = true;
  }
  return options;
}

std::vector<StrategyOptions> with_pieces(std::vector<StrategyOptions> options) {
  for (std::size_t i = 0, count = options.size(); i < count; ++i) {
    options.push_back(options[i]);
    options.back().piece_bytes = 2 * KiB;  // of the 8 that each part of a block has
  }
  return options;
}

RunConfig tiny_config(const StrategyOptions& options) {
  RunConfig config;
  config.train.batch = 2 * options.microbatches;
  config.train.microbatch = 2;
  config.train.precision = options.precision;
  config.train.recompute = options.save ? Recompute::none : Recompute::full;
  config.data.sequence_length = 8;
  config.plan.order = options.order;
  if (!options.clips) config.optimizer.clip_norm = 0;
  config.memory.host = kUnlimited;
  return config;
}

Strategy tiny_strategy(const Model& model, const StrategyOptions& options) {
  Strategy strategy = make_strategy(tiny_config(options), model);
  strategy.pins = options.pins;
  strategy.saves = options.saves;
  strategy.mesh = options.mesh;
  strategy.zero_stage = options.zero_stage;
  strategy.reduce_dtype = options.reduce_dtype;
  strategy.delays_reduction = options.delays_reduction;
  strategy.shares_out_matrices = options.shares_out_matrices;
  strategy.updates_late = options.updates_late;
  strategy.divides_backward = options.divides_backward;
  strategy.piece_bytes = options.piece_bytes;
  strategy.packed = options.packed;
  for (std::size_t u = 0; u < options.units_on_device; ++u) strategy.state[u] = Tier::device;
  return strategy;
}

std::string refusal(const RunConfig& config, const Model& model) {
  try {
    make_plan(config, model);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

RunConfig with_named_budgets(RunConfig config, const std::string& refusal) {
  // What follows a semicolon is another way.
  const std::string sentence = refusal.substr(0, refusal.find(';'));
  static const std::regex named(R"((memory\.[a-z.]+)(?:(?!memory\.)[^(])*\((\d+) bytes\))");
  for (auto match = std::sregex_iterator(sentence.begin(), sentence.end(), named);
       match != std::sregex_iterator(); ++match) {
    const std::string key = (*match)[1];
    const Bytes bytes = std::stoll((*match)[2]);
    if (key == "memory.device") config.memory.device = bytes;
    if (key == "memory.host") config.memory.host = bytes;
    if (key == "memory.nvme.size") config.memory.nvme_size = bytes;
  }
  return config;
}

SymbolicState run_in_order(const Program& program, const Rounds& rounds) {
  BufferMemory memory(program);
  SymbolicState saved;
  initialise(program, memory);
  for (std::int64_t round = 0; round < count_of(rounds, program); ++round) {
    for (const Instruction& instruction : program.instructions)
      perform(program, instruction, round, rounds, memory, saved);
  }
  return final_state(program, memory, std::move(saved));
}

SymbolicState run_in_order(const Program& program, int steps, const SaveSchedule& saves) {
  return run_in_order(program, first_rounds(program, steps, saves));
}

SymbolicState run_in_random_order(const Program& placed, const Rounds& rounds, std::uint32_t seed) {
  const Dependencies dependencies = find_dependencies(placed);
  ByteMemory memory(placed);
  SymbolicState saved;
  initialise(placed, memory);
  std::mt19937 random(seed);
  EnumArray<Lane, std::int64_t> completed;
  const std::int64_t all_rounds = count_of(rounds, placed);
  const auto length = [&](Lane lane) { return static_cast<std::int64_t>(dependencies.lanes[lane].size()); };
  const auto ready = [&](Lane lane) {
    if (completed[lane] >= all_rounds * length(lane)) return false;
    const std::int64_t round = completed[lane] / length(lane);
    const auto index = dependencies.lanes[lane][static_cast<std::size_t>(completed[lane] % length(lane))];
    for (const Lane other : kLanes) {
      const LanePosition& wait = dependencies.waits[static_cast<std::size_t>(index)][other];
      if (wait.position < 0) continue;
      if (completed[other] < needed(dependencies, other, wait, round, rounds)) return false;
    }
    return true;
  };
  for (;;) {
    std::vector<Lane> choices;
    for (const Lane lane : kLanes) {
      if (ready(lane)) choices.push_back(lane);
    }
    if (choices.empty()) break;
    // A disk can be slower than all else: with an odd seed the lane of saving waits as long as another can go
    // on.
    if (seed % 2 == 1 && choices.size() > 1) std::erase(choices, Lane::save);
    const Lane lane = choices[random() % choices.size()];
    const std::int64_t position = completed[lane]++;
    const auto index = dependencies.lanes[lane][static_cast<std::size_t>(position % length(lane))];
    perform(placed, placed.instructions[static_cast<std::size_t>(index)], position / length(lane), rounds,
            memory, saved);
  }
  for (const Lane lane : kLanes) {
    if (completed[lane] != all_rounds * length(lane)) return {{"deadlock", 0}};
  }
  return final_state(placed, memory, std::move(saved));
}

SymbolicState run_in_random_order(const Program& placed, int steps, std::uint32_t seed,
                                  const SaveSchedule& saves) {
  return run_in_random_order(placed, first_rounds(placed, steps, saves), seed);
}

MachineRates random_rates(std::mt19937& random) {
  const auto rate = [&](double least) {
    return least * std::exp(std::uniform_real_distribution<double>(0, 5)(random));
  };
  return {.flops_per_second = rate(1e9),
          .memory_bytes_per_second = rate(2e8),
          .h2d_bytes_per_second = rate(1e7),
          .d2h_bytes_per_second = rate(1e7),
          .nvme_read_bytes_per_second = rate(1e7),
          .nvme_write_bytes_per_second = rate(1e7),
          .cores_copy = random() % 2 == 0};
}

Bytes persistent_bytes(const Program& program, BufferKind kind) {
  Bytes bytes = 0;
  for (const Buffer& buffer : program.buffers)
    if (buffer.persistent && buffer.kind == kind) bytes += buffer.bytes;
  return bytes;
}

}  // namespace strata::test
