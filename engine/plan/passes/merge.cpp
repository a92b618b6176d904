#include "engine/plan/passes/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "base/nth.h"
#include "engine/plan/program/rounds.h"

namespace strata {
namespace {

class Merger {
 public:
  Merger(std::span<const ModelProgram> models, std::vector<RankGroup> groups) : models_(models) {
    result_.groups = std::move(groups);
    for (std::size_t m = 0; m < models.size(); ++m) add_outline(m);
  }

  Program run(std::span<const std::int32_t> order) {
    for (const std::int32_t number : order) add_turn(static_cast<std::size_t>(number));
    for (std::size_t m = 0; m < models_.size(); ++m) {
      if (of_[m].next != of_[m].turns.size())
        throw std::logic_error(fmt::format("the order has not all turns of model {}", models_[m].name));
    }
    return std::move(result_);
  }

 private:
  struct OfModel {
    std::vector<Turn> turns;
    std::vector<std::int32_t> groups;  ///< their numbers in the result
    std::vector<std::int32_t> works;   ///< their numbers in the result
    std::vector<BufferId> buffers;     ///< their numbers in the result; -1: not there yet
    std::int32_t first_unit = 0;
    std::size_t next = 0;  ///< turn
  };

  void add_outline(std::size_t m) {
    OfModel& of = of_.emplace_back();
    const Program* plain = models_[m].plain;
    if (plain == nullptr) return;
    of.turns = find_turns(*plain);
    of.first_unit = strata::first_unit(models_, m);
    for (const std::string& unit : plain->units) result_.units.push_back(name(m, unit));
    for (std::int32_t work = 0; work < std::ssize(plain->works); ++work)
      of.works.push_back(result_.works.add(plain->works[work]));
    for (const RankGroup& group : plain->groups) {
      const auto found = std::ranges::find(result_.groups, group);
      of.groups.push_back(static_cast<std::int32_t>(found - result_.groups.begin()));
    }
    of.buffers.assign(plain->buffers.size(), -1);
    for (const StateEntry& place : plain->state) share(m, place);
    for (std::size_t b = 0; b < plain->buffers.size(); ++b) {
      if (plain->buffers[b].persistent) add_buffer(m, static_cast<BufferId>(b));
    }
    for (StateEntry place : plain->state) {
      if (place.unit >= 0) place.unit += of.first_unit;
      place.buffer = nth(of.buffers, place.buffer);
      place.model = static_cast<std::int32_t>(m);
      result_.state.push_back(place);
    }
  }

  /// Takes another model's buffer for what is frozen in the place, if both are to be one and live alike.
  void share(std::size_t m, const StateEntry& place) {
    const std::span<const std::int32_t> numbers = models_[m].shared_frozen;
    if (place.part != StateKey::frozen || numbers.empty()) return;
    const std::int32_t number = nth(numbers, place.unit);
    if (number < 0) return;
    const Buffer& own = models_[m].plain->buffer(place.buffer);
    const auto [found, is_new] =
        shared_.try_emplace({number, own.tier, place.is_whole, place.type, own.bytes}, -1);
    BufferId& id = nth(of_[m].buffers, place.buffer);
    if (is_new) found->second = add_buffer(m, place.buffer);
    id = found->second;
  }

  /// A name of the only model is as it was.
  std::string name(std::size_t m, const std::string& own) const {
    return models_[m].name.empty() ? own : models_[m].name + "/" + own;
  }

  BufferId add_buffer(std::size_t m, BufferId own) {
    BufferId& id = nth(of_[m].buffers, own);
    if (id >= 0) return id;
    Buffer buffer = models_[m].plain->buffer(own);
    buffer.name = name(m, *buffer.name);
    if (models_.size() > 1) buffer.renewed = false;  // a model that has ended makes nothing
    return id = result_.add(std::move(buffer));
  }

  void add_turn(std::size_t m) {
    OfModel& of = of_[m];
    const Turn turn = of.turns.at(of.next++);
    for (std::int32_t i = turn.first; i < turn.last; ++i) {
      Instruction instruction = nth(models_[m].plain->instructions, i);
      instruction.model = static_cast<std::int32_t>(m);
      if (instruction.unit >= 0) instruction.unit += of.first_unit;
      if (instruction.work >= 0) instruction.work = nth(of.works, instruction.work);
      if (instruction.exchange.group >= 0)
        instruction.exchange.group = nth(of.groups, instruction.exchange.group);
      for (OperandList* operands : {&instruction.reads, &instruction.writes}) {
        for (Operand& operand : *operands) operand.buffer = add_buffer(m, operand.buffer);
      }
      result_.instructions.push_back(std::move(instruction));
    }
  }

  std::span<const ModelProgram> models_;
  std::vector<OfModel> of_;
  /// By number, and how they live.
  std::map<std::tuple<std::int32_t, Tier, bool, ElementType, Bytes>, BufferId> shared_;
  Program result_;
};

}  // namespace

std::int32_t first_unit(std::span<const ModelProgram> models, std::size_t model) {
  std::int32_t units = 0;
  for (const ModelProgram& before : models.first(model)) {
    if (before.plain != nullptr) units += static_cast<std::int32_t>(before.plain->units.size());
  }
  return units;
}

std::vector<Turn> find_turns(const Program& plain) {
  const auto count = static_cast<std::int32_t>(plain.instructions.size());
  std::vector<bool> is_inside(plain.instructions.size(), false);  // a value lives from the one before
  const std::vector<Lifetime> live = lifetimes(plain);
  std::vector<std::int32_t> ends(plain.instructions.size(), -1);  // the furthest of lifetimes that begin here
  for (std::size_t b = 0; b < plain.buffers.size(); ++b) {
    const Buffer& buffer = plain.buffers[b];
    if (buffer.tier != Tier::device || buffer.persistent || buffer.apart) continue;
    live[b].for_each_stretch(count, [&](std::int32_t first, std::int32_t last) {
      std::int32_t& end = nth(ends, first);
      end = std::max(end, last);
    });
  }
  std::vector<Turn> turns;
  std::int32_t first = 0, end = -1;
  for (std::int32_t i = 0; i < count; ++i) {
    const Instruction& instruction = nth(plain.instructions, i);
    const bool waits_for_ranks =
        instruction.meets_ranks() || instruction.operation == Operation::finish_checkpoint;
    const bool comes_to_device = nth(ends, i) >= i;
    const bool begins_step = i > 0 && instruction.serves == Serves::step &&
                             nth(plain.instructions, i - 1).serves == Serves::step_before;
    if (i > first && end < i && (comes_to_device || waits_for_ranks || begins_step)) {
      turns.push_back({first, i});
      first = i;
    }
    end = std::max(end, nth(ends, i));
  }
  if (count > 0) turns.push_back({first, count});
  return turns;
}

Program begin_round_with(const Program& plain, std::size_t turn) {
  if (turn == 0) return plain;
  const auto cut = plain.instructions.begin() + find_turns(plain).at(turn).first;
  Program result = plain.outline();
  result.buffers = plain.buffers;
  result.instructions.assign(cut, plain.instructions.end());
  for (Instruction& instruction : result.instructions) instruction.serves = Serves::step_before;
  result.instructions.insert(result.instructions.end(), plain.instructions.begin(), cut);
  carry_between_rounds(result);
  return result;
}

std::vector<RankGroup> groups_of(std::span<const ModelProgram> models) {
  std::vector<RankGroup> groups;
  for (const ModelProgram& model : models) {
    if (model.plain == nullptr) continue;
    for (const RankGroup& group : model.plain->groups) {
      if (std::ranges::find(groups, group) == groups.end()) groups.push_back(group);
    }
  }
  return groups;
}

Program merge(std::span<const ModelProgram> models, std::span<const std::int32_t> order,
              std::vector<RankGroup> groups) {
  return Merger(models, std::move(groups)).run(order);
}

Program merge(std::span<const ModelProgram> models, std::span<const std::int32_t> order) {
  return merge(models, order, groups_of(models));
}

Program part_of(const Program& merged, std::span<const ModelProgram> models, std::size_t model) {
  const Program& own = *models[model].plain;
  const auto number = static_cast<std::int32_t>(model);
  const std::int32_t first = first_unit(models, model);
  Program part = own.outline();
  part.groups = merged.groups;
  part.state.clear();
  std::vector<BufferId> found(merged.buffers.size(), -1);
  const auto own_buffer = [&](BufferId id) {
    BufferId& own_id = nth(found, id);
    if (own_id < 0) own_id = part.add(merged.buffer(id));
    return own_id;
  };
  for (StateEntry place : merged.state) {
    if (place.model != number) continue;
    place.model = 0;
    if (place.unit >= 0) place.unit -= first;
    place.buffer = own_buffer(place.buffer);
    part.state.push_back(place);
  }
  for (const Instruction& instruction : merged.instructions) {
    if (instruction.model != number) continue;
    Instruction& copy = part.instructions.emplace_back(instruction);
    copy.model = 0;
    if (copy.unit >= 0) copy.unit -= first;
    if (copy.work >= 0) copy.work = part.works.add(merged.works[copy.work]);
    for (OperandList* operands : {&copy.reads, &copy.writes}) {
      for (Operand& operand : *operands) operand.buffer = own_buffer(operand.buffer);
    }
  }
  return part;
}

}  // namespace strata
