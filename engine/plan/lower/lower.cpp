#include "engine/plan/lower/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/nth.h"
#include "engine/model/graph/data_array.h"
#include "engine/plan/lower/carried.h"
#include "engine/plan/lower/pass_lowering.h"
#include "engine/plan/lower/regions.h"
#include "engine/plan/lower/schedule.h"
#include "engine/plan/lower/state_layout.h"
#include "engine/plan/lower/step_builder.h"
#include "engine/plan/lower/update_lowering.h"
#include "engine/plan/program/rounds.h"

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
        builder_(strategy),
        step_(make_step_values(model, strategy, *compute_, microbatches)),
        state_(strategy, step_, builder_.program_builder()),
        pass_lowering_(model, step_, builder_),
        updates_(model, work_, step_, state_, builder_) {
    for (const Unit& unit : model.units) builder_.program().units.push_back(unit.name);
    builder_.program().groups = groups_of(strategy.mesh);
    if (!model.is_sampled) {
      builder_.program().loss_terms =
          all_microbatches * loss_terms_of(model.graphs).in(strategy.microbatch) * strategy.mesh.context;
    }
    state_.make_persistent();
  }

  Program training() {
    const Schedule schedule = training_schedule(strategy_, work_);
    if (strategy_.is_asynchronous()) {
      builder_.program().updates = strategy_.updates();
      keep_on_device(schedule, step_, builder_);
    } else {
      load();
      list_rows();
    }
    if (strategy_.updates_late) state_.carry_what_late_updates_read();
    walk(schedule, true);
    updates_.finish();
    mark_renewed(builder_.program());
    if (strategy_.is_asynchronous()) {
      carry_between_rounds(builder_.program());
      keep_sums_apart(builder_.program());
    }
    return std::move(builder_.program());
  }

  Program validation() {
    load();
    walk(validation_schedule(strategy_, unit_count_, static_cast<std::int32_t>(microbatches_)), false);
    return std::move(builder_.program());
  }

  Program sampling() {
    load();
    walk(sampling_schedule(strategy_, unit_count_), false);
    return std::move(builder_.program());
  }

 private:
  const Unit& unit(std::int32_t u) const { return nth(model_.units, u); }
  const UnitPasses& passes(std::int32_t u) const { return compute_->passes(unit(u)); }
  UnitValues& unit_values(std::int32_t u) { return nth(step_.units, u); }
  bool on_device(std::int32_t u) const { return strategy_.on_device(u); }
  const Mesh& mesh() const { return strategy_.mesh; }
  /// Ranks add up rows of the unit's gradient, not all of it.
  bool sends_rows(std::int32_t u) const { return nth(step_.units, u).rows.elements > 0; }
  void walk(const Schedule& schedule, bool trains) {
    for (std::size_t i = 0, count = 1; i < schedule.size(); i += count) {
      const std::span<const Visit> visits = together(std::span(schedule).subspan(i));
      count = visits.size();
      const Visit& visit = visits.front();
      const std::int32_t u = visit.unit;
      // A parameter that is gathered or unpacked serves all visits in a row of a unit in one pass.
      const bool has_parameters =
          visit.pass == last_visit_.pass && u == last_visit_.unit && visit.stash == last_visit_.stash;
      if (visit.message == Message::none) last_visit_ = visit;
      builder_.set_serves(visit.serves);
      switch (visit.pass) {
        case Pass::forward:
        case Pass::backward:
        case Pass::input_gradient:
        case Pass::weight_gradient: {
          const std::size_t level = trains ? this->level(u) : 0;
          const UnitPass& pass = pass_of(visit.pass, passes(u).levels[level]);
          if (begins_backward(visit)) begin_gradients(u);
          if (!has_parameters) bring_parameters(visit, pass);
          pass_lowering_.run(visits, pass, level);
          break;
        }
        case Pass::finish_gradient:
          finish_gradient(u);
          break;
        case Pass::reduce_gradient:
          reduce_gradient(u, visit.microbatch);
          break;
        case Pass::sums:
          sum_losses();
          updates_.sum_norms();
          break;
        case Pass::loss:
          if (!trains || strategy_.updates() == 1) sum_losses();
          loss();
          break;
        case Pass::next_tokens:
          next_tokens();
          break;
        case Pass::gradient_norm:
          updates_.grad_norm();
          break;
        case Pass::stash:
          updates_.stash(visit);
          break;
        case Pass::update:
          updates_.update(visit);
          break;
        case Pass::send:
        case Pass::receive:
          builder_.message(visit, step_);
          break;
        case Pass::load:
          load(visit.microbatch);
          break;
      }
    }
  }

  /// The visits in front whose segments take turns.
  std::span<const Visit> together(std::span<const Visit> visits) const {
    const Visit& first = visits.front();
    const auto goes_along = [&](const Visit& visit) {
      return visit.microbatch >= 0 && visit.message == Message::none && visit.pass == first.pass &&
             visit.unit == first.unit && visit.serves == first.serves && visit.stash == first.stash;
    };
    if (!strategy_.interleaves || !goes_along(first)) return visits.first(1);
    const auto end = std::ranges::find_if_not(visits, goes_along);
    return slice(visits, 0, end - visits.begin());
  }

  bool adds_to_shared(std::int32_t u) const {
    return passes(u).saving_nothing().backward.touches(Region::shared_gradient);
  }
  /// Another unit adds to its gradient, before its own backward passes.
  bool is_shared(std::int32_t u) const {
    for (std::int32_t other = 0; other < unit_count_; ++other)
      if (strategy_.has(other) && unit(other).shares == u && adds_to_shared(other)) return true;
    return false;
  }

  /// What the pass reads, for the visits in a row that begin with this one: from other ranks, and unpacked.
  void bring_parameters(const Visit& visit, const UnitPass& pass) {
    const auto bring = [&](Region region, std::int32_t owner, Role role, ParameterValues& values) {
      if (!pass.touches(region)) return;
      Value& all = values.is_packed() ? values.packed : values.whole;
      if (strategy_.gathers()) {
        builder_.make_resident(all, false);
        builder_.all_gather(owner, values.kept(true), all);
      }
      if (!values.is_packed()) return;
      builder_.make_resident(values.whole, false);
      builder_.on_compute(Operation::unpack, owner,
                          {{Role::source, &all, Access::read}, {role, &values.whole, Access::write}});
    };
    const auto bring_of = [&](std::int32_t owner, Region parameter, Region frozen) {
      if (owner < 0) return;
      UnitValues& values = unit_values(owner);
      bring(parameter, owner, Role::parameter, values.parameter_of(visit.stash));
      bring(frozen, owner, Role::frozen, values.frozen);
    };
    bring_of(visit.unit, Region::parameter, Region::frozen);
    bring_of(unit(visit.unit).shares, Region::shared_parameter, Region::shared_frozen);
  }

  void load() {
    for (std::int64_t mb = 0; mb < microbatches_; ++mb) load(mb);
  }

  void load(std::int64_t mb) {
    std::vector<Use> uses;
    for (std::size_t array = 0; array < step_.data.size(); ++array) {
      if (!step_.data[array].empty())
        uses.push_back({role_of(data_region(array)), &nth(step_.data[array], mb), Access::write});
    }
    if (!uses.empty()) builder_.on_host(Operation::load_data, Lane::data, -1, mb, uses);
  }

  void list_rows() {
    for (std::int32_t u = 0; u < unit_count_; ++u) {
      if (!sends_rows(u)) continue;
      const std::size_t array = unit(u).row_numbers;
      std::vector<Use> uses;
      for (Value& numbers : step_.data[array])
        uses.push_back({role_of(data_region(array)), &numbers, Access::read});
      uses.push_back({Role::rows, &unit_values(u).rows, Access::write});
      builder_.on_host(Operation::list_rows, Lane::data, u, -1, uses);
    }
  }

  /// How much of the unit's activations is saved.
  std::size_t level(std::int32_t u) const {
    return std::min(nth(strategy_.saved_level, u), passes(u).levels.size() - 1);
  }

  static const UnitPass& pass_of(Pass pass, const UnitPasses::Level& level) {
    switch (pass) {
      case Pass::forward:
        return level.forward;
      case Pass::input_gradient:
        return level.input_gradient;
      case Pass::weight_gradient:
        return level.weight_gradient;
      default:
        return level.backward;
    }
  }
  /// The first of an update that may add to the unit's gradient.
  bool begins_backward(const Visit& visit) const {
    if (visit.pass == Pass::forward || (visit.microbatch > 0 && strategy_.updates() == 1)) return false;
    return visit.pass != Pass::weight_gradient || !nth(work_, visit.unit).input_gradient;
  }

  /// Sums gradients of parameters that ranks have alike though each makes a part of the gradient only.
  void add_up_gradients(std::int32_t u) {
    for (const TensorSpec& tensor : unit(u).tensors) {
      if (tensor.summed_ranks == 1 || tensor.flat != Flat::trained) continue;
      const DataGroup group = tensor.summed_ranks < mesh().tensor ? DataGroup::keys : DataGroup::tensor;
      builder_.add_up(group, u, -1, Role::gradient, unit_values(u).gradient,
                      {ElementType::fp32, tensor.elements, tensor.offset * size_of(ElementType::fp32)});
    }
  }

  void begin_gradients(std::int32_t u) {
    if (adds_to_shared(u)) unit_values(unit(u).shares).gradient.begins = true;
    if (nth(work_, u).update && !is_shared(u)) unit_values(u).gradient.begins = true;
  }

  void cast_gradient(std::int32_t u, Value& accumulated) {
    builder_.on_compute(Operation::cast_gradient, u,
                        {{Role::source, &accumulated, Access::read},
                         {Role::destination, &unit_values(u).cast_gradient, Access::write}});
  }

  void finish_gradient(std::int32_t u) {
    add_up_gradients(u);
    if (strategy_.is_copied(u)) {
      builder_.on_compute(Operation::add_gradient, u,
                          {{Role::source, &unit_values(u).received_gradient, Access::read},
                           {Role::gradient, &unit_values(u).gradient, Access::update}});
    }
    if (sends_rows(u)) {
      copy_rows(u);
    } else if (!strategy_.reduces_as_fp32()) {
      cast_gradient(u, unit_values(u).gradient);
    }
  }

  /// From a rank's own gradient to the one that all ranks have given, and its sum of squares.
  void reduce_gradient(std::int32_t u, std::int32_t microbatch) {
    UnitValues& values = unit_values(u);
    Value& norm = values.norm_of(microbatch);
    Value& own = strategy_.reduces_as_fp32() ? values.gradient : values.cast_gradient;
    Value& sum = strategy_.is_sharded() ? values.reduced_gradient : own;
    if (sends_rows(u)) {
      sum_rows(u, sum);
    } else if (strategy_.is_sharded()) {
      builder_.on_comm(Operation::reduce_scatter, u, builder_.exchange_of_parts(sum.bytes()),
                       {{Role::source, &own, Access::read}, {Role::destination, &sum, Access::write}});
    }
    if (mesh().replicate > 1 && (strategy_.is_sharded() || !sends_rows(u))) {
      builder_.on_comm(Operation::all_reduce, u, builder_.exchange_of_sums(DataGroup::replicate, sum),
                       {{Role::gradient, &sum, Access::update}});
    }
    if (strategy_.reduces_as_fp32() && !strategy_.travels_as_fp32()) cast_gradient(u, sum);
    const std::vector<Use> uses = {{Role::gradient, &state_.final_gradient(u), Access::read},
                                   {Role::norm, &norm, Access::write}};
    if (on_device(u)) {
      builder_.on_compute(Operation::sum_of_squares, u, uses);
    } else {
      builder_.on_host(Operation::sum_of_squares, Lane::cpu, u, -1, uses);
    }
    builder_.all_reduce_on_host(u, DataGroup::shard, Role::norm, norm);
    if (mesh().tensor > 1) builder_.all_reduce_on_host(u, DataGroup::tensor, Role::norm, norm);
  }

  /// Copies those rows of a gradient that have values on this rank.
  void copy_rows(std::int32_t u) {
    UnitValues& values = unit_values(u);
    builder_.on_compute(Operation::copy_rows, u,
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
      builder_.on_comm(Operation::all_gather, u, builder_.exchange_of_parts(own.bytes()),
                       {{role, &own, Access::read}, {Role::destination, &all, Access::write}});
    };
    gather(Role::rows, values.rows, values.all_rows);
    gather(Role::row_values, values.row_values, values.all_row_values);
    builder_.on_device(
        {.operation = Operation::sum_rows, .unit = u, .exchange = {.group = builder_.reducing_group()}},
        {{Role::rows, &values.all_rows, Access::read},
         {Role::row_values, &values.all_row_values, Access::read},
         {Role::destination, &sum, Access::write}});
  }

  void sum_losses() {
    std::vector<Use> uses;
    for (Value& losses : step_.losses) uses.push_back({Role::losses, &losses, Access::read});
    uses.push_back({Role::step_sums, &step_.step_sums, Access::write});
    builder_.on_host(Operation::sum_losses, Lane::cpu, -1, -1, uses);
  }

  void loss() {
    builder_.all_reduce_on_host(-1, DataGroup::world, Role::step_sums, step_.step_sums);
    builder_.on_host(Operation::loss, Lane::cpu, -1, -1, {{Role::step_sums, &step_.step_sums, Access::read}});
  }

  /// The rank that has a sample chooses what follows it; then all know it.
  void next_tokens() {
    const auto on_cpu = [&](Operation operation, const std::vector<Use>& uses) {
      builder_.on_host(operation, Lane::cpu, -1, -1, uses);
    };
    const Use chosen{Role::destination, &step_.next_tokens, Access::write};
    if (step_.logits.elements > 0) {
      on_cpu(Operation::join_logits, {{Role::logits, &step_.logits, Access::read},
                                      {Role::destination, &step_.all_logits, Access::write}});
      if (mesh().tensor > 1)
        builder_.all_reduce_on_host(-1, DataGroup::tensor, Role::destination, step_.all_logits);
      on_cpu(Operation::choose_tokens, {{Role::source, &step_.all_logits, Access::read}, chosen});
    } else {
      on_cpu(Operation::choose_tokens, {chosen});
    }
    builder_.all_reduce_on_host(-1, DataGroup::world, Role::destination, step_.next_tokens);
    on_cpu(Operation::take_tokens, {{Role::source, &step_.next_tokens, Access::read}});
  }

  const Model& model_;
  const Strategy& strategy_;
  std::shared_ptr<const UnitCompute> compute_;
  std::int64_t microbatches_;
  std::int32_t unit_count_;
  std::vector<UnitWork> work_;
  StepBuilder builder_;
  StepValues step_;
  StateLayout state_;
  PassLowering pass_lowering_;
  UpdateLowering updates_;
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

Program lower_sampling(const Model& model, const Strategy& strategy) {
  Strategy of_samples = strategy;
  of_samples.microbatch = strategy.samples.of_rank;
  of_samples.microbatches = 1;
  return Lowering(*model.sampling, of_samples, 1, strategy.mesh.data()).sampling();
}

std::string_view name_of(Interlude interlude) {
  return interlude == Interlude::validation ? "validation" : "sampling";
}

bool has(const Strategy& strategy, Interlude interlude) {
  return interlude == Interlude::validation ? strategy.validation_microbatches > 0
                                            : strategy.samples.prompts > 0;
}

Program lower_interlude(Interlude interlude, const Model& model, const Strategy& strategy) {
  return interlude == Interlude::validation ? lower_validation(model, strategy)
                                            : lower_sampling(model, strategy);
}

}  // namespace strata
