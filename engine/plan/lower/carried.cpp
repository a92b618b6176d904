#include "engine/plan/lower/carried.h"

#include <map>
#include <vector>

#include "base/nth.h"
#include "engine/model/model.h"

namespace strata {
namespace {

class KeptOnDevice {
 public:
  KeptOnDevice(StepValues& step, StepBuilder& builder)
      : step_(step), builder_(builder), strategy_(builder.strategy()) {}

  void keep_stashes() {
    for (std::size_t u = 0; u < step_.units.size(); ++u) {
      if (!strategy_.on_device(static_cast<std::int32_t>(u))) continue;
      for (ParameterValues& stash : step_.units[u].stashes) keep(stash.kept(strategy_.gathers()));
    }
  }

  /// What visits of different rounds share.
  void touch(const Visit& visit) {
    if (visit.microbatch < 0) return;
    if (visit.pass == Pass::forward) {
      touch(visit, visit.unit, &UnitValues::input);
      touch(visit, visit.unit, &UnitValues::saved);
      touch(visit, visit.unit + 1, &UnitValues::input);
    } else if (visit.pass == Pass::backward) {
      touch(visit, visit.unit, &UnitValues::input);
      touch(visit, visit.unit, &UnitValues::saved);
      touch(visit, visit.unit, &UnitValues::input_gradient);
      touch(visit, visit.unit + 1, &UnitValues::input_gradient);
    } else if (visit.message == Message::input) {
      touch(visit, visit.unit, &UnitValues::input);
    } else if (visit.message == Message::input_gradient) {
      touch(visit, visit.unit, &UnitValues::input_gradient);
    }
  }

 private:
  void keep(Value& value) {
    if (value.elements > 0 && value.resident < 0) builder_.make_resident(value, false);
  }

  /// The unit behind the stage's last is another one's, and its input goes with that last one's state.
  void touch(const Visit& visit, std::int32_t u, std::vector<Value> UnitValues::*values) {
    if (u == static_cast<std::int32_t>(step_.units.size())) return;
    if (!strategy_.on_device(strategy_.has(u) ? u : u - 1)) return;
    std::vector<Value>& all = nth(step_.units, u).*values;
    if (all.empty()) return;
    Value& value = nth(all, visit.microbatch);
    if (serves_.try_emplace(&value, visit.serves).first->second != visit.serves) keep(value);
  }

  StepValues& step_;
  StepBuilder& builder_;
  const Strategy& strategy_;
  std::map<const Value*, Serves> serves_;  ///< of the first visit that touches a value
};

}  // namespace

void keep_on_device(const Schedule& schedule, StepValues& step, StepBuilder& builder) {
  KeptOnDevice kept(step, builder);
  kept.keep_stashes();
  for (const Visit& visit : schedule) kept.touch(visit);
}

void keep_sums_apart(Program& program) {
  bool has_met = false;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.lane != Lane::cpu) continue;
    has_met |= instruction.meets_ranks();
    if (!has_met) continue;
    for_each_operand(instruction, [&](const Operand& operand, bool) {
      Buffer& buffer = program.buffer(operand.buffer);
      buffer.apart = !buffer.persistent;
    });
  }
}

}  // namespace strata
