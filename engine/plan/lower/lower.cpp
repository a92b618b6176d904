#include "engine/plan/lower/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "collectives/sent_bytes.h"
#include "engine/graph/data_array.h"
#include "engine/plan/lower/regions.h"
#include "engine/plan/lower/schedule.h"
#include "engine/plan/lower/state_layout.h"

namespace strata {
namespace {

class Lowering {
 public:
  /// `microbatches` on this rank, `all_microbatches` on all together.
  Lowering(const Model& model, const Strategy& strategy, std::int64_t microbatches,
           std::int64_t all_microbatches)
      : model_(model),
        strategy_(strategy),
        compute_(unit_compute(model, strategy.precision, strategy.microbatch)),
        microbatches_(microbatches),
        unit_count_(static_cast<std::int32_t>(model.units.size())),
        work_(unit_work(model, strategy)),
        step_(make_step_values(model, strategy, *compute_, microbatches)),
        state_(strategy, step_, builder_) {
    for (const Unit& unit : model.units) builder_.program.units.push_back(unit.name);
    builder_.program.groups = groups_of(strategy.mesh);
    builder_.program.loss_terms = all_microbatches * loss_terms_of(model.graphs).in(strategy.microbatch);
    state_.make_persistent();
  }

  Program training() {
    load();
    list_rows();
    if (strategy_.updates_late) state_.carry_what_late_updates_read();
    walk(training_schedule(strategy_, work_), true);
    if (last_late_unit() < 0) finish_checkpoint();
    return std::move(builder_.program);
  }

  Program validation() {
    load();
    walk(validation_schedule(strategy_.order, unit_count_, static_cast<std::int32_t>(microbatches_)), false);
    return std::move(builder_.program);
  }

 private:
  static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }
  const Unit& unit(std::int32_t u) const { return model_.units[index(u)]; }
  const UnitPasses& passes(std::int32_t u) const { return compute_->passes(unit(u)); }
  UnitValues& unit_values(std::int32_t u) { return step_.units[index(u)]; }
  bool on_device(std::int32_t u) const { return strategy_.on_device(u); }
  /// The last unit whose update belongs to the round behind its step's, or -1.
  std::int32_t last_late_unit() const {
    std::int32_t u = unit_count_ - 1;
    while (u >= 0 && !(work_[index(u)].update && strategy_.updates_late_of(u))) --u;
    return u;
  }
  const Mesh& mesh() const { return strategy_.mesh; }
  /// Ranks add up rows of the unit's gradient, not all of it.
  bool sends_rows(std::int32_t u) const { return step_.units[index(u)].rows.elements > 0; }
  void on_compute(Operation operation, std::int32_t unit, const std::vector<Use>& uses) {
    builder_.on_device({.operation = operation, .unit = unit, .serves = last_visit_.serves}, uses);
  }

  void on_host(Operation operation, Lane lane, std::int32_t unit, std::int64_t mb,
               const std::vector<Use>& uses, When when = When::every_step) {
    builder_.on_host({.operation = operation,
                      .lane = lane,
                      .unit = unit,
                      .microbatch = static_cast<std::int32_t>(mb),
                      .when = when,
                      .serves = last_visit_.serves},
                     uses);
  }

  void on_host(Operation operation, std::int32_t unit, const std::vector<Use>& uses, Effect effect) {
    builder_.on_host({.operation = operation, .lane = Lane::cpu, .unit = unit, .effect = effect}, uses);
  }

  /// An exchange of the lane comm: `sent` bytes leave each rank of the group.
  void on_comm(Operation operation, std::int32_t unit, Exchange exchange, const std::vector<Use>& uses) {
    builder_.on_device({.operation = operation,
                        .lane = Lane::comm,
                        .unit = unit,
                        .exchange = exchange,
                        .serves = last_visit_.serves},
                       uses);
  }

  std::int64_t ranks_of(DataGroup group) const {
    return mesh().data() == 1 ? 1 : builder_.program.groups[index(number(group))].ranks;
  }

  static std::int32_t number(DataGroup group) { return static_cast<std::int32_t>(group); }
  /// Ranks that have parts of a sum, or of a whole.
  std::int32_t reducing_group() const {
    return number(strategy_.is_sharded() ? DataGroup::shard : DataGroup::replicate);
  }

  Exchange exchange_of_parts(Bytes part) const {
    return {reducing_group(), sent_in_parts(part, mesh().reducing())};
  }
  Exchange exchange_of_sums(DataGroup group, const Value& value) const {
    return {number(group), sent_in_sum(value.elements, size_of(value.type), ranks_of(group))};
  }

  /// Sums of the group's ranks, of a few numbers on the host.
  void all_reduce_on_host(std::int32_t unit, DataGroup group, Role role, Value& value) {
    if (ranks_of(group) == 1) return;
    builder_.on_host({.operation = Operation::all_reduce,
                      .lane = Lane::cpu,
                      .unit = unit,
                      .exchange = exchange_of_sums(group, value)},
                     {{role, &value, Access::update}});
  }

  /// Brings a unit's shards together.
  void all_gather(std::int32_t u, Value& shard, Value& whole) {
    on_comm(Operation::all_gather, u, exchange_of_parts(shard.bytes()),
            {{Role::source, &shard, Access::read}, {Role::destination, &whole, Access::write}});
  }

  void walk(const Schedule& schedule, bool trains) {
    for (const Visit& visit : schedule) {
      const std::int32_t u = visit.unit;
      // A gathered parameter serves all visits in a row of a unit in one pass.
      const bool has_parameters =
          !strategy_.gathers() || (visit.pass == last_visit_.pass && u == last_visit_.unit);
      last_visit_ = visit;
      switch (visit.pass) {
        case Pass::forward:
          if (!has_parameters) gather_parameters(u, passes(u).saving_nothing().forward);
          forward(u, visit.microbatch, trains ? level(u) : 0);
          break;
        case Pass::backward:
          if (visit.microbatch == 0) zero_gradients(u);
          if (!has_parameters) gather_parameters(u, passes(u).levels[level(u)].backward);
          backward(u, visit.microbatch);
          break;
        case Pass::finish_gradient:
          finish_gradient(u);
          break;
        case Pass::reduce_gradient:
          reduce_gradient(u);
          break;
        case Pass::loss:
          loss();
          break;
        case Pass::gradient_norm:
          grad_norm();
          break;
        case Pass::update:
          update(u);
          break;
      }
    }
  }

  bool adds_to_shared(std::int32_t u) const {
    return passes(u).saving_nothing().backward.touches(Region::shared_gradient);
  }
  /// Another unit adds to its gradient, before its own backward passes.
  bool is_shared(std::int32_t u) const {
    for (std::int32_t other = 0; other < unit_count_; ++other)
      if (unit(other).shares == u && adds_to_shared(other)) return true;
    return false;
  }

  /// What the pass reads, for the visits in a row that begin with this one.
  void gather_parameters(std::int32_t u, const Segment& pass) {
    const auto gather = [&](Region region, std::int32_t owner, Value UnitValues::*shard,
                            Value UnitValues::*whole) {
      if (!pass.touches(region)) return;
      builder_.make_resident(unit_values(owner).*whole, false);
      all_gather(owner, unit_values(owner).*shard, unit_values(owner).*whole);
    };
    const auto gather_of = [&](std::int32_t owner, Region parameter, Region frozen) {
      gather(parameter, owner, &UnitValues::parameter_shard, &UnitValues::parameter);
      gather(frozen, owner, &UnitValues::frozen_shard, &UnitValues::frozen);
    };
    gather_of(u, Region::parameter, Region::frozen);
    gather_of(unit(u).shares, Region::shared_parameter, Region::shared_frozen);
  }

  void load() {
    for (std::int64_t mb = 0; mb < microbatches_; ++mb) {
      std::vector<Use> uses;
      for (std::size_t array = 0; array < step_.data.size(); ++array)
        uses.push_back({role_of(data_region(array)), &step_.data[array][index(mb)], Access::write});
      on_host(Operation::load_data, Lane::data, -1, mb, uses);
    }
  }

  void list_rows() {
    for (std::int32_t u = 0; u < unit_count_; ++u) {
      if (!sends_rows(u)) continue;
      const std::size_t array = unit(u).row_numbers;
      std::vector<Use> uses;
      for (Value& numbers : step_.data[array])
        uses.push_back({role_of(data_region(array)), &numbers, Access::read});
      uses.push_back({Role::rows, &unit_values(u).rows, Access::write});
      on_host(Operation::list_rows, Lane::data, u, -1, uses);
    }
  }

  /// What a region is in a pass of the unit.
  Value& value_of(Region region, std::int32_t u, std::int64_t mb) {
    UnitValues& values = unit_values(u);
    switch (region) {
      case Region::parameter:
        return values.parameter;
      case Region::shared_parameter:
        return unit_values(unit(u).shares).parameter;
      case Region::frozen:
        return values.frozen;
      case Region::shared_frozen:
        return unit_values(unit(u).shares).frozen;
      case Region::gradient:
        return values.gradient;
      case Region::shared_gradient:
        return unit_values(unit(u).shares).gradient;
      case Region::input:
        return values.input[index(mb)];
      case Region::output:
        return unit_values(u + 1).input[index(mb)];
      case Region::output_gradient:
        return unit_values(u + 1).input_gradient[index(mb)];
      case Region::input_gradient:
        return values.input_gradient[index(mb)];
      case Region::saved:
        return values.saved[index(mb)];
      case Region::constants:
        return step_.constants;
      case Region::data_0:
      case Region::data_1:
      case Region::data_2:
      case Region::data_3:
        return step_.data[data_number(region)][index(mb)];
      case Region::losses:
        return step_.losses[index(mb)];
      case Region::loss_scale:
        return step_.loss_scale;
      case Region::tally:
        return step_.tally[index(mb)];
      case Region::workspace:
        break;
    }
    throw std::logic_error("a workspace is made for each pass");
  }

  /// How much of the unit's activations is saved.
  std::size_t level(std::int32_t u) const {
    return std::min(strategy_.saved_level[index(u)], passes(u).levels.size() - 1);
  }

  /// How a pass touches what several units have in common.
  static Access access_to(const Segment& pass, Region region) {
    if (!pass.writes(region)) return Access::read;
    return pass.reads(region) ? Access::update : Access::write;
  }

  void forward(std::int32_t u, std::int64_t mb, std::size_t level) {
    const Segment& pass = passes(u).levels[level].forward;
    run_pass(Operation::forward, u, mb, pass, level,
             {{Region::parameter, Access::read},
              {Region::frozen, Access::read},
              {Region::input, Access::read},
              {Region::shared_parameter, Access::read},
              {Region::shared_frozen, Access::read},
              {Region::data_0, Access::read},
              {Region::data_1, Access::read},
              {Region::data_2, Access::read},
              {Region::data_3, Access::read},
              {Region::losses, Access::write},
              {Region::output, Access::write},
              {Region::saved, Access::write},
              {Region::tally, access_to(pass, Region::tally)}});
  }

  void backward(std::int32_t u, std::int64_t mb) {
    run_pass(Operation::backward, u, mb, passes(u).levels[level(u)].backward, level(u),
             {{Region::parameter, Access::read},
              {Region::frozen, Access::read},
              {Region::input, Access::read},
              {Region::input_gradient, Access::write},
              {Region::data_0, Access::read},
              {Region::data_1, Access::read},
              {Region::data_2, Access::read},
              {Region::data_3, Access::read},
              {Region::losses, Access::write},
              {Region::loss_scale, Access::read},
              {Region::output_gradient, Access::read},
              {Region::saved, Access::read},
              {Region::gradient, Access::update},
              {Region::shared_parameter, Access::read},
              {Region::shared_frozen, Access::read},
              {Region::shared_gradient, Access::update},
              {Region::tally, Access::read}});
  }

  /// An instruction on those of the regions that the pass touches.
  void run_pass(Operation operation, std::int32_t u, std::int64_t mb, const Segment& pass, std::size_t level,
                const std::vector<std::pair<Region, Access>>& regions) {
    std::vector<Use> uses;
    for (const auto& [region, access] : regions)
      if (pass.touches(region)) uses.push_back({role_of(region), &value_of(region, u, mb), access});
    if (pass.touches(Region::constants)) uses.push_back({Role::constants, &step_.constants, Access::read});
    Value scratch = make_value(fmt::format("{}/workspace", unit(u).name), BufferKind::workspace,
                               ElementType::byte, pass.workspace_bytes());
    scratch.scratch = true;
    uses.push_back({Role::workspace, &scratch, Access::write});
    builder_.on_device({.operation = operation,
                        .unit = u,
                        .microbatch = static_cast<std::int32_t>(mb),
                        .flops = pass.flops(),
                        .saved_level = static_cast<std::int32_t>(level)},
                       uses);
  }

  void zero_gradients(std::int32_t u) {
    const auto zero = [&](std::int32_t unit) {
      on_compute(Operation::zero, unit, {{Role::gradient, &unit_values(unit).gradient, Access::write}});
    };
    if (adds_to_shared(u)) zero(unit(u).shares);
    if (work_[index(u)].update && !is_shared(u)) zero(u);
  }

  void cast_gradient(std::int32_t u, Value& accumulated) {
    on_compute(Operation::cast_gradient, u,
               {{Role::source, &accumulated, Access::read},
                {Role::destination, &unit_values(u).cast_gradient, Access::write}});
  }

  void finish_gradient(std::int32_t u) {
    if (sends_rows(u)) {
      copy_rows(u);
    } else if (!strategy_.reduces_as_fp32()) {
      cast_gradient(u, unit_values(u).gradient);
    }
  }

  /// From a rank's own gradient to the one that all ranks have given, and its sum of squares.
  void reduce_gradient(std::int32_t u) {
    UnitValues& values = unit_values(u);
    Value& own = strategy_.reduces_as_fp32() ? values.gradient : values.cast_gradient;
    Value& sum = strategy_.is_sharded() ? values.reduced_gradient : own;
    if (sends_rows(u)) {
      sum_rows(u, sum);
    } else if (strategy_.is_sharded()) {
      on_comm(Operation::reduce_scatter, u, exchange_of_parts(sum.bytes()),
              {{Role::source, &own, Access::read}, {Role::destination, &sum, Access::write}});
    }
    if (mesh().replicate > 1 && (strategy_.is_sharded() || !sends_rows(u))) {
      on_comm(Operation::all_reduce, u, exchange_of_sums(DataGroup::replicate, sum),
              {{Role::gradient, &sum, Access::update}});
    }
    if (strategy_.reduces_as_fp32() && !strategy_.travels_as_fp32()) cast_gradient(u, sum);
    const std::vector<Use> uses = {{Role::gradient, &state_.final_gradient(u), Access::read},
                                   {Role::norm, &values.norm, Access::write}};
    if (on_device(u)) {
      on_compute(Operation::sum_of_squares, u, uses);
    } else {
      on_host(Operation::sum_of_squares, Lane::cpu, u, -1, uses);
    }
    all_reduce_on_host(u, DataGroup::shard, Role::norm, values.norm);
  }

  /// Copies those rows of a gradient that have values on this rank.
  void copy_rows(std::int32_t u) {
    UnitValues& values = unit_values(u);
    on_compute(Operation::copy_rows, u,
               {{Role::gradient, &values.gradient, Access::read},
                {Role::rows, &values.rows, Access::read},
                {Role::row_values, &values.row_values, Access::write}});
  }

  /// They go to all ranks, which add them up as they would add whole gradients.
  void sum_rows(std::int32_t u, Value& sum) {
    UnitValues& values = unit_values(u);
    builder_.make_resident(values.all_rows, false);
    builder_.make_resident(values.all_row_values, false);
    const auto gather = [&](Role role, Value& own, Value& all) {
      on_comm(Operation::all_gather, u, exchange_of_parts(own.bytes()),
              {{role, &own, Access::read}, {Role::destination, &all, Access::write}});
    };
    gather(Role::rows, values.rows, values.all_rows);
    gather(Role::row_values, values.row_values, values.all_row_values);
    builder_.on_device({.operation = Operation::sum_rows, .unit = u, .exchange = {.group = reducing_group()}},
                       {{Role::rows, &values.all_rows, Access::read},
                        {Role::row_values, &values.all_row_values, Access::read},
                        {Role::destination, &sum, Access::write}});
  }

  void loss() {
    std::vector<Use> uses;
    for (Value& losses : step_.losses) uses.push_back({Role::losses, &losses, Access::read});
    uses.push_back({Role::step_sums, &step_.step_sums, Access::write});
    on_host(Operation::sum_losses, Lane::cpu, -1, -1, uses);
    all_reduce_on_host(-1, DataGroup::world, Role::step_sums, step_.step_sums);
    on_host(Operation::loss, Lane::cpu, -1, -1, {{Role::step_sums, &step_.step_sums, Access::read}});
  }

  void grad_norm() {
    std::vector<Use> uses;
    for (UnitValues& values : step_.units) {
      if (values.trains()) uses.push_back({Role::norm, &values.norm, Access::read});
    }
    if (strategy_.global_norm) uses.push_back({Role::step_scalars, &step_.step_scalars, Access::write});
    if (strategy_.scales_loss()) uses.push_back({Role::loss_scale, &step_.loss_scale, Access::update});
    if (strategy_.saves) uses.push_back({Role::step_record, &step_.step_record, Access::write});
    on_host(Operation::grad_norm, -1, uses, Effect::reports);
    if (strategy_.saves) {
      on_host(Operation::save, Lane::save, -1, -1, {{Role::step_record, &step_.step_record, Access::read}},
              When::saving);
    }
  }

  void update(std::int32_t u) {
    UnitValues& values = unit_values(u);
    Value& scalars = strategy_.global_norm ? step_.step_scalars : values.step_scalars;
    if (!strategy_.global_norm) {
      on_host(Operation::step_scalars, u,
              {{Role::norm, &values.norm, Access::read}, {Role::step_scalars, &scalars, Access::write}},
              Effect::decides);
    }
    for (StatePiece& piece : values.state) {
      update(u, piece, scalars);
      const bool is_last = &piece == &values.state.back();
      if (is_last && strategy_.is_sharded() && !strategy_.gathers())
        all_gather(u, values.parameter_shard, values.parameter);
      if (!strategy_.saves) continue;
      for (const std::vector<Use>& part : state_.saved_parts(u, piece)) save(u, piece.piece, part);
    }
    if (u == last_late_unit()) finish_checkpoint();
  }

  void update(std::int32_t u, StatePiece& piece, Value& scalars) {
    std::vector<Use> uses = {{Role::step_scalars, &scalars, Access::read},
                             {Role::gradient, &state_.final_gradient(u), Access::read}};
    if (!strategy_.travels_as_fp32()) uses.push_back({Role::master, &piece.master, Access::update});
    uses.push_back({Role::exp_avg, &piece.exp_avg, Access::update});
    uses.push_back({Role::exp_avg_sq, &piece.exp_avg_sq, Access::update});
    // A rounded copy is overwritten, whole or piece by piece; a parameter that is its own master or the high
    // half of it is updated.
    Value& parameter = state_.updated_parameter(u);
    const bool is_made = strategy_.is_rounded_copy() && piece.piece.first == 0;
    uses.push_back({Role::parameter, &parameter, is_made ? Access::write : Access::update});
    if (on_device(u)) {
      if (parameter.resident < 0) builder_.make_resident(parameter, false);
      on_compute(Operation::adamw, u, uses);
    } else {
      builder_.on_host({.operation = Operation::adamw,
                        .lane = Lane::cpu,
                        .unit = u,
                        .serves = last_visit_.serves,
                        .piece = piece.piece},
                       uses);
    }
  }

  /// What is frozen is saved last.
  void finish_checkpoint() {
    if (!strategy_.saves) return;
    for (std::int32_t u = 0; u < unit_count_; ++u) {
      if (unit(u).frozen_elements > 0) save(u, {}, {{Role::frozen, &state_.frozen(u), Access::read}});
    }
    on_host(Operation::finish_checkpoint, Lane::save, -1, -1, {}, When::saving);
  }

  /// Right after what is saved is made, so that what the nvme tier sends for the one serves the other too.
  /// What lives on the device comes to the host by a copy of the save lane's own: the lane d2h, which the
  /// next step needs, would wait for the disk.
  void save(std::int32_t u, const Piece& piece, const std::vector<Use>& part) {
    if (StateLayout::is_at_home(part)) {
      builder_.on_host({.operation = Operation::save,
                        .lane = Lane::save,
                        .unit = u,
                        .when = When::saving,
                        .serves = last_visit_.serves,
                        .piece = piece},
                       part);
      return;
    }
    const Operand room{Role::workspace, ElementType::byte, state_.room_for_saving(),
                       builder_.program.buffer(state_.room_for_saving()).bytes};
    Instruction instruction{Operation::save, Lane::save, u, -1, {}, {room}, When::saving};
    instruction.serves = last_visit_.serves;
    for (const Use& use : part)
      instruction.reads.push_back(use.value->operand(use.role, use.value->resident));
    builder_.program.instructions.push_back(std::move(instruction));
  }

  const Model& model_;
  const Strategy& strategy_;
  std::shared_ptr<const UnitCompute> compute_;
  std::int64_t microbatches_;
  std::int32_t unit_count_;
  std::vector<UnitWork> work_;
  ProgramBuilder builder_;
  StepValues step_;
  StateLayout state_;
  Visit last_visit_ = {Pass::update};
};

}  // namespace

Program lower_training(const Model& model, const Strategy& strategy) {
  return Lowering(model, strategy, strategy.microbatches, strategy.microbatches * strategy.mesh.data())
      .training();
}

Program lower_validation(const Model& model, const Strategy& strategy) {
  return Lowering(model, strategy, per_rank(strategy.validation_microbatches, strategy.mesh),
                  strategy.validation_microbatches)
      .validation();
}

}  // namespace strata
