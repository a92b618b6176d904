#include "engine/plan/bound/step_facts.h"

#include <algorithm>
#include <limits>
#include <set>

#include "base/nth.h"
#include "engine/model/model.h"
#include "engine/plan/cost/timeline.h"
#include "engine/plan/lower/lower.h"
#include "engine/plan/lower/schedule.h"

namespace strata {
namespace {

bool is_backward(Operation operation) {
  return operation == Operation::backward || operation == Operation::input_gradient ||
         operation == Operation::weight_gradient;
}

Bytes bytes_of(const Program& program, const Instruction& instruction, Role role) {
  const BufferId id = instruction.find(role);
  return id < 0 ? 0 : program.buffer(id).bytes;
}

/// The plain program of one microbatch in which each unit saves `level`, or what it can.
Program plain_step(const Model& model, Strategy strategy, std::size_t level, Tier state) {
  strategy.microbatches = 1;
  strategy.saves = false;
  strategy.updates_late = false;
  strategy.pins = {};
  std::ranges::fill(strategy.saved_level, level);
  std::ranges::fill(strategy.state, state);
  return lower_training(model, strategy);
}

class FactReader {
 public:
  FactReader(StepFacts& facts, const Program& program, const MachineRates& rates)
      : facts_(facts), program_(program), costs_(program, rates) {}

  /// What holds if all state is on the host.
  void read_host() {
    for (const Instruction& instruction : program_.instructions) {
      const double seconds = costs_.seconds_of(instruction);
      if (instruction.unit < 0) {
        if (instruction.lane == Lane::cpu) facts_.cpu_seconds += seconds;
        continue;
      }
      UnitFacts& unit = unit_of(instruction);
      if (instruction.lane == Lane::cpu)
        (instruction.operation == Operation::sum_of_squares ? unit.squares : unit.update) += seconds;
      if (instruction.lane == Lane::compute && !is_pass(instruction)) unit.beside_host += seconds;
      if (instruction.operation == Operation::update) {
        unit.gradient = bytes_of(program_, instruction, Role::gradient);
        unit.host_state += state_of(instruction);
        const auto is_parameter = [](const Operand& operand) { return operand.role == Role::parameter; };
        if (instruction.piece.first == 0)
          unit.is_made = std::ranges::none_of(instruction.reads, is_parameter);
      }
      if (instruction.operation == Operation::unpack) read_packed(instruction, unit);
      if (is_pass(instruction)) read_parameters(instruction, unit);
      if (is_backward(instruction.operation)) unit.summed = bytes_of(program_, instruction, Role::gradient);
    }
  }

  /// What each microbatch brings and leaves.
  void read_data() {
    std::set<BufferId> loaded, losses;
    for (const Instruction& instruction : program_.instructions) {
      if (instruction.operation == Operation::load_data)
        for (const Operand& operand : instruction.writes) loaded.insert(operand.buffer);
      if (instruction.operation == Operation::sum_losses)
        for (const Operand& operand : instruction.reads) losses.insert(operand.buffer);
    }
    for (const Instruction& instruction : program_.instructions) {
      if (instruction.operation == Operation::copy_to_device &&
          loaded.erase(instruction.reads.front().buffer) > 0)
        facts_.data += program_.buffer(instruction.writes.front().buffer).bytes;
      if (instruction.operation == Operation::copy_to_host &&
          losses.erase(instruction.writes.front().buffer) > 0)
        facts_.losses += program_.buffer(instruction.writes.front().buffer).bytes;
    }
  }

  void read_device() {
    for (const Instruction& instruction : program_.instructions) {
      if (instruction.unit < 0 || instruction.lane != Lane::compute || is_pass(instruction)) continue;
      UnitFacts& unit = unit_of(instruction);
      unit.beside_device += costs_.seconds_of(instruction);
      if (instruction.operation != Operation::update) continue;
      unit.device_state += state_of(instruction);
      unit.sum = bytes_of(program_, instruction, Role::gradient);
    }
  }

  void read_level() {
    for (UnitFacts& unit : facts_.units) unit.levels.emplace_back();
    for (const Instruction& instruction : program_.instructions) {
      if (!is_pass(instruction)) continue;
      UnitFacts::Level& level = unit_of(instruction).levels.back();
      if (!is_backward(instruction.operation)) {
        level.forward += costs_.seconds_of(instruction);
        continue;
      }
      level.backward += costs_.seconds_of(instruction);
      if (instruction.segment > 0 || instruction.operation == Operation::weight_gradient) continue;
      level.kept =
          bytes_of(program_, instruction, Role::input) + bytes_of(program_, instruction, Role::saved);
    }
  }

  /// What the last unit's first backward pass has. Its level says what is kept for it.
  void read_turn() {
    const auto last = static_cast<std::int32_t>(facts_.units.size()) - 1;
    const auto turn = std::ranges::find_if(program_.instructions, [&](const Instruction& instruction) {
      return instruction.unit == last && is_backward(instruction.operation);
    });
    std::set<BufferId> there;
    for_each_operand(*turn, [&](const Operand& operand, bool) {
      if (operand.role != Role::input && operand.role != Role::saved) there.insert(operand.buffer);
    });
    for (const BufferId id : there)
      if (program_.buffer(id).tier == Tier::device) facts_.turn += program_.buffer(id).bytes;
  }

 private:
  Bytes state_of(const Instruction& update) const {
    Bytes bytes = bytes_of(program_, update, Role::master);
    for (const Moment moment : kMoments) bytes += bytes_of(program_, update, role_of(moment));
    return bytes;
  }
  static bool is_pass(const Instruction& instruction) {
    return instruction.operation == Operation::forward || is_backward(instruction.operation);
  }
  UnitFacts& unit_of(const Instruction& instruction) const { return nth(facts_.units, instruction.unit); }
  /// What a pass reads: as it is kept.
  void read_parameters(const Instruction& instruction, UnitFacts& unit) const {
    const auto read = [&](Role role, Bytes& kept) {
      const BufferId id = instruction.find(role);
      if (id < 0) return;
      if (!unpacked_.contains(id)) kept = std::max(kept, program_.buffer(id).bytes);
      if (is_backward(instruction.operation)) unit.is_read_again = true;
    };
    read(Role::parameter, unit.parameter);
    read(Role::frozen, unit.frozen);
  }
  void read_packed(const Instruction& unpack, UnitFacts& unit) {
    const bool is_frozen = unpack.find(Role::frozen) >= 0;
    (is_frozen ? unit.frozen : unit.parameter) = bytes_of(program_, unpack, Role::source);
    unpacked_.insert(unpack.writes.front().buffer);
  }

  StepFacts& facts_;
  const Program& program_;
  InstructionCosts costs_;
  std::set<BufferId> unpacked_;
};

}  // namespace

StepFacts facts_of(const Model& model, const Strategy& strategy, const MachineRates& rates) {
  StepFacts facts;
  facts.units.resize(model.units.size());
  facts.microbatches = strategy.microbatches;
  facts.global_norm = strategy.global_norm;
  for (UnitFacts& unit : facts.units) unit.is_read_again = false;
  const auto compute = unit_compute(model, strategy.precision, strategy.microbatch);
  std::size_t levels = 1;
  for (const Unit& unit : model.units) levels = std::max(levels, compute->passes(unit).levels.size());
  for (std::size_t level = 0; level < levels; ++level) {
    const Program program = plain_step(model, strategy, level, Tier::host);
    FactReader reader(facts, program, rates);
    reader.read_level();
    if (level > 0) continue;
    reader.read_host();
    reader.read_turn();
    reader.read_data();
  }
  const Program on_device = plain_step(model, strategy, 0, Tier::device);
  FactReader(facts, on_device, rates).read_device();
  facts.units.back().is_at_turn = true;
  if (const std::int32_t shared = model.head().shares; shared >= 0)
    nth(facts.units, shared).is_at_turn = true;
  for (UnitFacts& unit : facts.units) {
    unit.levels.erase(std::unique(unit.levels.begin(), unit.levels.end()), unit.levels.end());
  }
  return facts;
}

double least_pass_seconds(const UnitPasses& passes, bool is_last, const MachineRates& rates) {
  double least = std::numeric_limits<double>::infinity();
  for (const UnitPasses::Level& level : passes.levels) {
    const double forward = is_last ? 0 : seconds_of_pass(level.forward, rates);
    least = std::min(least, forward + seconds_of_pass(level.backward, rates));
  }
  return least;
}

double least_pass_seconds(const Model& model, const Strategy& strategy, const MachineRates& rates) {
  const auto compute = unit_compute(model, strategy.precision, strategy.microbatch);
  double seconds = 0;
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    if (strategy.has(static_cast<std::int32_t>(u)))
      seconds += least_pass_seconds(compute->passes(model.units[u]), u + 1 == model.units.size(), rates);
  }
  return seconds * static_cast<double>(strategy.microbatches);
}

}  // namespace strata
