// Adds a step's instructions to a program: on the device, on the host, and between ranks.
#pragma once

#include <vector>

#include "engine/plan/lower/program_builder.h"
#include "engine/plan/lower/schedule.h"
#include "engine/plan/lower/step_values.h"
#include "engine/plan/lower/strategy.h"

namespace strata {

class StepBuilder {
 public:
  /// REQUIRES: the strategy outlives it.
  explicit StepBuilder(const Strategy& strategy) : strategy_(strategy) {}

  ProgramBuilder& program_builder() { return builder_; }
  Program& program() { return builder_.program; }
  const Strategy& strategy() const { return strategy_; }

  /// What the next instructions serve.
  void set_serves(Serves serves) { serves_ = serves; }
  Serves serves() const { return serves_; }

  void make_resident(Value& value, bool persistent) { builder_.make_resident(value, persistent); }
  void on_device(Instruction instruction, const std::vector<Use>& uses);
  void on_compute(Operation operation, std::int32_t unit, const std::vector<Use>& uses);
  void on_host(Instruction instruction, const std::vector<Use>& uses);
  void on_host(Operation operation, Lane lane, std::int32_t unit, std::int64_t microbatch,
               const std::vector<Use>& uses, When when = When::every_step);
  /// On the lane cpu.
  void on_host(Operation operation, std::int32_t unit, std::int32_t microbatch, const std::vector<Use>& uses,
               Effect effect);
  /// An exchange of the lane comm: `sent` bytes leave each rank of the group.
  void on_comm(Operation operation, std::int32_t unit, Exchange exchange, const std::vector<Use>& uses);

  /// Ranks that have parts of a sum, or of a whole.
  std::int32_t reducing_group() const;
  Exchange exchange_of_parts(Bytes part) const;
  Exchange exchange_of_sums(DataGroup group, const Value& value) const;
  /// Sums of the group's ranks, of a few numbers on the host.
  void all_reduce_on_host(std::int32_t unit, DataGroup group, Role role, Value& value);
  /// Part of a value becomes the sum of what ranks that share the unit's passes have made.
  void add_up(DataGroup group, std::int32_t unit, std::int32_t microbatch, Role role, Value& value,
              const Use::Part& part);
  /// Parts of ranks that share the unit's passes become the whole, or what they have made becomes each one's
  /// part of the sum. REQUIRES: two uses of parts, a source and a destination.
  void gather_or_scatter(Operation operation, std::int32_t unit, std::int32_t microbatch,
                         const std::vector<Use>& uses);
  /// Parts of two values: what the rank has goes to the next of those that share its sequences, and what the
  /// one before has comes.
  void ring_shift(std::int32_t unit, std::int32_t microbatch, const Use& from, const Use& to);
  /// Brings a unit's shards together.
  void all_gather(std::int32_t unit, Value& shard, Value& whole);

  /// One end of a message between stages. What a microbatch's forward passes tally goes along with its input,
  /// and what all of them have with the gradient.
  void message(const Visit& visit, StepValues& step);

 private:
  std::int64_t ranks_of(DataGroup group) const;
  void message(const Visit& visit, Value& value);

  const Strategy& strategy_;
  ProgramBuilder builder_;
  Serves serves_ = Serves::step;
};

}  // namespace strata
