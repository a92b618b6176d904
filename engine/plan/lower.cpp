#include "engine/plan/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "optim/counters.h"
#include "optim/loss_scale.h"
#include "optim/step_scalars.h"

namespace strata {
namespace {

/// Something the program computes with. Its device buffers come and go (one per visit in the plain program),
/// its home stays.
struct Value {
  std::string name;
  BufferKind kind = BufferKind::activation;
  Bytes bytes = 0;
  BufferId home = -1;      ///< on the host; made when first needed
  BufferId resident = -1;  ///< device buffer, where the value lives on the device
  bool pinned = false;     ///< gets a resident buffer with its first use
  bool at_home = false;    ///< of a value with both buffers: the host's is as new as the device's
  bool scratch = false;    ///< dies with its instruction: never copied
};

enum class Access : std::uint8_t { read, write, update };

struct Use {
  Role role;
  Value* value;
  Access access;
};

Value make_value(std::string name, BufferKind kind, Bytes bytes) {
  Value value;
  value.name = std::move(name);
  value.kind = kind;
  value.bytes = bytes;
  return value;
}

/// The values of one unit.
struct UnitValues {
  Value parameter, gradient, travelling_gradient, master, exp_avg, exp_avg_sq, norm, step_scalars;
  std::vector<Value> input, input_gradient, saved;  ///< per microbatch
};

class Lowering {
 public:
  Lowering(const Model& model, const Strategy& strategy, std::int64_t microbatches)
      : model_(model),
        strategy_(strategy),
        compute_(model, strategy.precision, strategy.microbatch),
        microbatches_(microbatches),
        unit_count_(static_cast<std::int32_t>(model.units.size())) {
    for (const Unit& unit : model.units) program_.units.push_back(unit.name);
    make_values();
    make_persistent_buffers();
  }

  Program training() {
    load();
    if (strategy_.order == Order::layer_major) {
      for (std::int32_t u = 0; u < head(); ++u) {
        for (std::int64_t mb = 0; mb < microbatches_; ++mb) forward(u, mb, strategy_.save[index(u)]);
      }
      for (std::int32_t u = head(); u > 0; --u) {
        for (std::int64_t mb = 0; mb < microbatches_; ++mb) backward(u, mb);
      }
    } else {
      for (std::int64_t mb = 0; mb < microbatches_; ++mb) {
        for (std::int32_t u = 0; u < head(); ++u) forward(u, mb, strategy_.save[index(u)]);
        for (std::int32_t u = head(); u > 0; --u) backward(u, mb);
      }
    }
    for (std::int64_t mb = 0; mb < microbatches_; ++mb) backward(0, mb);
    loss();
    finish_step();
    return std::move(program_);
  }

  Program validation() {
    load();
    if (strategy_.order == Order::layer_major) {
      for (std::int32_t u = 0; u <= head(); ++u) {
        for (std::int64_t mb = 0; mb < microbatches_; ++mb) forward(u, mb, false);
      }
    } else {
      for (std::int64_t mb = 0; mb < microbatches_; ++mb) {
        for (std::int32_t u = 0; u <= head(); ++u) forward(u, mb, false);
      }
    }
    loss();
    return std::move(program_);
  }

 private:
  static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }
  std::int32_t head() const { return unit_count_ - 1; }
  bool tied() const { return model_.architecture.tied_head; }
  bool on_device(std::int32_t u) const { return strategy_.state[index(u)] == Tier::device; }
  /// Small gradients vanish in fp16, and only there.
  bool scales_loss() const { return strategy_.precision == DType::fp16; }
  bool travels_as_fp32() const { return strategy_.precision == DType::fp32; }
  bool is_rounded_copy() const { return !travels_as_fp32() && !strategy_.state_format.split_master; }

  void make_values() {
    const Bytes element = size_of(strategy_.precision);
    const StateFormat& format = strategy_.state_format;
    for (std::int32_t u = 0; u < unit_count_; ++u) {
      const Unit& unit = model_.units[index(u)];
      const auto named = [&](const char* what, BufferKind kind, Bytes bytes) {
        return make_value(fmt::format("{}/{}", unit.name, what), kind, bytes);
      };
      UnitValues values;
      values.parameter = named("parameter", BufferKind::parameter, unit.elements * element);
      values.gradient = named("gradient", BufferKind::gradient, unit.elements * 4);
      values.travelling_gradient = named("cast_gradient", BufferKind::gradient, unit.elements * element);
      values.master = named("master", BufferKind::optimizer_state,
                            unit.elements * format.master_bytes(strategy_.precision));
      values.exp_avg = named("exp_avg", BufferKind::optimizer_state, unit.elements * format.moment_bytes());
      values.exp_avg_sq =
          named("exp_avg_sq", BufferKind::optimizer_state, unit.elements * format.moment_bytes());
      values.gradient.pinned = strategy_.pins.gradients;
      values.norm = named("norm", BufferKind::communication, sizeof(double));
      values.step_scalars = named("step_scalars", BufferKind::communication, sizeof(StepScalars));
      for (std::int64_t mb = 0; mb < microbatches_; ++mb) {
        const auto of_microbatch = [&](const char* what, Bytes bytes) {
          return make_value(fmt::format("{}/{}[mb={}]", unit.name, what, mb), BufferKind::activation, bytes);
        };
        values.input.push_back(of_microbatch("input", compute_.boundary_bytes()));
        values.input_gradient.push_back(of_microbatch("input_gradient", compute_.boundary_bytes()));
        values.saved.push_back(of_microbatch("saved", compute_.saved_bytes(unit)));
        for (Value* value : {&values.input.back(), &values.input_gradient.back(), &values.saved.back()})
          value->pinned = strategy_.pins.activations;
      }
      units_.push_back(std::move(values));
    }
    const Bytes token_bytes = strategy_.microbatch.tokens() * 4;
    for (std::int64_t mb = 0; mb < microbatches_; ++mb) {
      tokens_.push_back(make_value(fmt::format("tokens[mb={}]", mb), BufferKind::communication, token_bytes));
      targets_.push_back(
          make_value(fmt::format("targets[mb={}]", mb), BufferKind::communication, token_bytes));
      losses_.push_back(make_value(fmt::format("losses[mb={}]", mb), BufferKind::communication, token_bytes));
    }
    constants_ = make_value("constants", BufferKind::workspace, compute_.constant_bytes());
    loss_scale_ = make_value("loss_scale", BufferKind::communication, scales_loss() ? sizeof(LossScale) : 0);
    step_scalars_ = make_value("step_scalars", BufferKind::communication, sizeof(StepScalars));
    step_record_ = make_value("step_record", BufferKind::communication, sizeof(StepRecord));
  }

  void make_persistent_buffers() {
    if (constants_.bytes > 0) make_resident(constants_, true);
    if (scales_loss()) program_.buffer(home(loss_scale_)).persistent = true;
    for (std::int32_t u = 0; u < unit_count_; ++u) {
      UnitValues& values = units_[index(u)];
      std::vector<Value*> state = {&values.parameter};
      if (!travels_as_fp32()) state.push_back(&values.master);  // in fp32 the parameter is its own master
      state.push_back(&values.exp_avg);
      state.push_back(&values.exp_avg_sq);
      for (Value* value : state) {
        const bool pinned = value == &values.parameter && strategy_.pins.parameters;
        if (on_device(u) || pinned) make_resident(*value, true);
        // A pinned parameter that is updated from its own value has that value at home, too.
        if (!on_device(u) && (!pinned || !is_rounded_copy())) program_.buffer(home(*value)).persistent = true;
        value->at_home = true;
      }
    }
    make_room_for_saving();
  }

  /// Memory that nothing else uses: the next step would wait to use it until the disk has what is in it.
  void make_room_for_saving() {
    Bytes largest = 0;
    for (std::int32_t u = 0; u < unit_count_; ++u) {
      if (!on_device(u)) continue;
      for (const std::vector<Use>& part : saved_parts(u)) {
        Bytes bytes = 0;
        for (const Use& use : part) bytes += align_up(use.value->bytes, kBufferAlignment);
        largest = std::max(largest, bytes);
      }
    }
    if (!strategy_.saves || largest == 0) return;
    saved_state_ = program_.add({"saved_state", Tier::host, BufferKind::communication, largest, true, -1});
  }

  void make_resident(Value& value, bool persistent) {
    value.resident =
        program_.add({value.name, Tier::device, value.kind, align_up(value.bytes, kBufferAlignment), persistent, -1});
  }

  BufferId home(Value& value) {
    if (value.home < 0) {
      value.home = program_.add({value.name, Tier::host, value.kind, align_up(value.bytes, kBufferAlignment), false, -1});
    }
    return value.home;
  }

  void copy(Operation operation, Lane lane, std::int32_t unit, std::int64_t mb, BufferId from, BufferId to) {
    program_.instructions.push_back({operation,
                                     lane,
                                     unit,
                                     static_cast<std::int32_t>(mb),
                                     {{Role::source, from}},
                                     {{Role::destination, to}}});
  }

  /// An instruction of the compute lane: fetch what it reads, run, write back what it wrote.
  void on_compute(Operation operation, std::int32_t unit, std::int64_t mb, const std::vector<Use>& uses) {
    Instruction instruction{operation, Lane::compute, unit, static_cast<std::int32_t>(mb), {}, {}};
    std::vector<std::pair<BufferId, Value*>> write_back;
    for (const Use& use : uses) {
      Value& value = *use.value;
      if (value.bytes == 0) continue;
      if (value.pinned && value.resident < 0) make_resident(value, false);
      BufferId id = value.resident;
      const bool travels = id < 0 && !value.scratch;
      if (id < 0) id = program_.add({value.name, Tier::device, value.kind, align_up(value.bytes, kBufferAlignment), false, -1});
      if (travels && use.access != Access::write) {
        copy(Operation::copy_to_device, Lane::h2d, unit, mb, home(value), id);
      }
      if (use.access != Access::write) instruction.reads.push_back({use.role, id});
      if (use.access != Access::read) instruction.writes.push_back({use.role, id});
      if (travels && use.access != Access::read) write_back.emplace_back(id, &value);
      if (use.access != Access::read) value.at_home = travels;
    }
    program_.instructions.push_back(std::move(instruction));
    for (const auto& [id, value] : write_back) {
      copy(Operation::copy_to_host, Lane::d2h, unit, mb, id, home(*value));
    }
  }

  /// An instruction of a host lane: works on the homes. What lives on the device too is brought from there and back.
  void on_host(Operation operation, Lane lane, std::int32_t unit, std::int64_t mb,
               const std::vector<Use>& uses, When when = When::every_step) {
    Instruction instruction{operation, lane, unit, static_cast<std::int32_t>(mb), {}, {}, when};
    for (const Use& use : uses) {
      Value& value = *use.value;
      const BufferId id = home(value);
      if (use.access != Access::write && value.resident >= 0 && !value.at_home) {
        copy(Operation::copy_to_host, Lane::d2h, unit, mb, value.resident, id);
        value.at_home = true;
      }
      if (use.access != Access::write) instruction.reads.push_back({use.role, id});
      if (use.access != Access::read) instruction.writes.push_back({use.role, id});
    }
    program_.instructions.push_back(std::move(instruction));
    for (const Use& use : uses) {
      if (use.access == Access::read || use.value->resident < 0) continue;
      copy(Operation::copy_to_device, Lane::h2d, unit, mb, use.value->home, use.value->resident);
      use.value->at_home = true;
    }
  }

  void load() {
    for (std::int64_t mb = 0; mb < microbatches_; ++mb) {
      on_host(Operation::load_tokens, Lane::data, -1, mb,
              {{Role::tokens, &tokens_[index(mb)], Access::write},
               {Role::targets, &targets_[index(mb)], Access::write}});
    }
  }

  void forward(std::int32_t u, std::int64_t mb, bool save) {
    UnitValues& values = units_[index(u)];
    const Unit& unit = model_.units[index(u)];
    std::vector<Use> uses = {{Role::parameter, &values.parameter, Access::read}};
    if (unit.kind == UnitKind::embedding) {
      uses.push_back({Role::tokens, &tokens_[index(mb)], Access::read});
    } else {
      uses.push_back({Role::input, &values.input[index(mb)], Access::read});
    }
    if (unit.kind == UnitKind::head) {
      if (tied()) uses.push_back({Role::shared_parameter, &units_[0].parameter, Access::read});
      uses.push_back({Role::targets, &targets_[index(mb)], Access::read});
      uses.push_back({Role::losses, &losses_[index(mb)], Access::write});
    } else {
      uses.push_back({Role::output, &units_[index(u + 1)].input[index(mb)], Access::write});
    }
    if (save) uses.push_back({Role::saved, &values.saved[index(mb)], Access::write});
    finish_compute(Operation::forward, u, mb, uses, compute_.forward_workspace_bytes(unit, save));
  }

  void backward(std::int32_t u, std::int64_t mb) {
    UnitValues& values = units_[index(u)];
    const Unit& unit = model_.units[index(u)];
    const bool saved = strategy_.save[index(u)];
    const bool shares = unit.kind == UnitKind::head && tied();
    zero_if_first(u, mb);
    std::vector<Use> uses;
    if (unit.kind == UnitKind::embedding) {
      uses.push_back({Role::tokens, &tokens_[index(mb)], Access::read});
    } else {
      uses.push_back({Role::parameter, &values.parameter, Access::read});
      uses.push_back({Role::input, &values.input[index(mb)], Access::read});
      uses.push_back({Role::input_gradient, &values.input_gradient[index(mb)], Access::write});
    }
    if (unit.kind == UnitKind::head) {
      uses.push_back({Role::targets, &targets_[index(mb)], Access::read});
      uses.push_back({Role::losses, &losses_[index(mb)], Access::write});
      uses.push_back({Role::loss_scale, &loss_scale_, Access::read});
    } else {
      uses.push_back({Role::output_gradient, &units_[index(u + 1)].input_gradient[index(mb)], Access::read});
    }
    if (saved) uses.push_back({Role::saved, &values.saved[index(mb)], Access::read});
    uses.push_back({Role::gradient, &values.gradient, Access::update});
    if (shares) {
      uses.push_back({Role::shared_parameter, &units_[0].parameter, Access::read});
      uses.push_back({Role::shared_gradient, &units_[0].gradient, Access::update});
    }
    finish_compute(Operation::backward, u, mb, uses, compute_.backward_workspace_bytes(unit, saved));
    if (mb == microbatches_ - 1) finish_gradient(u);
  }

  void finish_compute(Operation operation, std::int32_t u, std::int64_t mb, std::vector<Use>& uses,
                      Bytes workspace) {
    Value scratch = make_value(fmt::format("{}/workspace", model_.units[index(u)].name),
                               BufferKind::workspace, workspace);
    scratch.scratch = true;
    if (model_.units[index(u)].kind == UnitKind::block)
      uses.push_back({Role::constants, &constants_, Access::read});
    uses.push_back({Role::workspace, &scratch, Access::write});
    on_compute(operation, u, mb, uses);
  }

  void zero_if_first(std::int32_t u, std::int64_t mb) {
    if (mb != 0) return;
    const auto zero = [&](std::int32_t unit) {
      on_compute(Operation::zero, unit, -1, {{Role::gradient, &units_[index(unit)].gradient, Access::write}});
    };
    if (u == head() && tied()) zero(0);
    if (u != 0 || !tied()) zero(u);
  }

  Value& final_gradient(std::int32_t u) {
    return travels_as_fp32() ? units_[index(u)].gradient : units_[index(u)].travelling_gradient;
  }

  void finish_gradient(std::int32_t u) {
    UnitValues& values = units_[index(u)];
    if (!travels_as_fp32()) {
      on_compute(Operation::cast_gradient, u, -1,
                 {{Role::source, &values.gradient, Access::read},
                  {Role::destination, &values.travelling_gradient, Access::write}});
    }
    if (on_device(u)) {
      on_compute(
          Operation::sum_of_squares, u, -1,
          {{Role::gradient, &final_gradient(u), Access::read}, {Role::norm, &values.norm, Access::write}});
    } else {
      on_host(
          Operation::sum_of_squares, Lane::cpu, u, -1,
          {{Role::gradient, &final_gradient(u), Access::read}, {Role::norm, &values.norm, Access::write}});
    }
    // On the device an update would wait for its scalars to come from the host, and all that follows with it.
    if (!strategy_.global_norm && !on_device(u)) update(u);
  }

  void loss() {
    std::vector<Use> uses;
    for (Value& losses : losses_) uses.push_back({Role::losses, &losses, Access::read});
    on_host(Operation::loss, Lane::cpu, -1, -1, uses);
  }

  /// The global norm and the updates that were not made before.
  void finish_step() {
    if (strategy_.global_norm) {
      grad_norm();
      for (std::int32_t u = 0; u < unit_count_; ++u) update(u);
    } else {
      for (std::int32_t u = 0; u < unit_count_; ++u) {
        if (on_device(u)) update(u);
      }
      grad_norm();
    }
    if (strategy_.saves) on_host(Operation::finish_checkpoint, Lane::save, -1, -1, {}, When::saving);
  }

  void grad_norm() {
    std::vector<Use> uses;
    for (UnitValues& values : units_) uses.push_back({Role::norm, &values.norm, Access::read});
    if (strategy_.global_norm) uses.push_back({Role::step_scalars, &step_scalars_, Access::write});
    if (scales_loss()) uses.push_back({Role::loss_scale, &loss_scale_, Access::update});
    if (strategy_.saves) uses.push_back({Role::step_record, &step_record_, Access::write});
    on_host(Operation::grad_norm, Lane::cpu, -1, -1, uses);
    if (strategy_.saves) {
      on_host(Operation::save, Lane::save, -1, -1, {{Role::step_record, &step_record_, Access::read}}, When::saving);
    }
  }

  void update(std::int32_t u) {
    UnitValues& values = units_[index(u)];
    Value& scalars = strategy_.global_norm ? step_scalars_ : values.step_scalars;
    if (!strategy_.global_norm) {
      on_host(Operation::step_scalars, Lane::cpu, u, -1,
              {{Role::norm, &values.norm, Access::read}, {Role::step_scalars, &scalars, Access::write}});
    }
    std::vector<Use> uses = {{Role::step_scalars, &scalars, Access::read},
                             {Role::gradient, &final_gradient(u), Access::read}};
    if (!travels_as_fp32()) uses.push_back({Role::master, &values.master, Access::update});
    uses.push_back({Role::exp_avg, &values.exp_avg, Access::update});
    uses.push_back({Role::exp_avg_sq, &values.exp_avg_sq, Access::update});
    // A rounded copy is overwritten whole; a parameter that is its own master or the high half of it is
    // updated.
    uses.push_back({Role::parameter, &values.parameter, is_rounded_copy() ? Access::write : Access::update});
    if (on_device(u)) {
      on_compute(Operation::adamw, u, -1, uses);
    } else {
      on_host(Operation::adamw, Lane::cpu, u, -1, uses);
    }
    if (strategy_.saves) save(u);
  }

  /// What each save of a unit reads.
  std::vector<std::vector<Use>> saved_parts(std::int32_t u) {
    UnitValues& values = units_[index(u)];
    std::vector<Use> master = {{Role::master, travels_as_fp32() ? &values.parameter : &values.master, Access::read}};
    if (strategy_.state_format.split_master) master.push_back({Role::parameter, &values.parameter, Access::read});
    return {master, {{Role::exp_avg, &values.exp_avg, Access::read}}, {{Role::exp_avg_sq, &values.exp_avg_sq, Access::read}}};
  }

  /// Right after what is saved is made, so that what the nvme tier sends for the one serves the other too. What lives on the
  /// device comes to the host by a copy of the save lane's own: the lane d2h, which the next step needs, would wait for the disk.
  void save(std::int32_t u) {
    for (const std::vector<Use>& part : saved_parts(u)) {
      if (!on_device(u)) {
        on_host(Operation::save, Lane::save, u, -1, part, When::saving);
        continue;
      }
      Instruction instruction{Operation::save, Lane::save, u, -1, {}, {{Role::workspace, saved_state_}}, When::saving};
      for (const Use& use : part) instruction.reads.push_back({use.role, use.value->resident});
      program_.instructions.push_back(std::move(instruction));
    }
  }

  const Model& model_;
  const Strategy& strategy_;
  UnitCompute compute_;
  std::int64_t microbatches_;
  std::int32_t unit_count_;
  Program program_;
  std::vector<UnitValues> units_;
  std::vector<Value> tokens_, targets_, losses_;
  Value constants_, step_scalars_, loss_scale_, step_record_;
  BufferId saved_state_ = -1;  ///< host memory for what is saved and lives on the device
};

}  // namespace

Strategy make_strategy(const RunConfig& config, const Model& model) {
  Strategy strategy;
  strategy.mesh = {config.parallel.data, config.parallel.pipeline, config.parallel.tensor};
  strategy.zero_stage = config.parallel.zero_stage;
  strategy.order = config.plan.order.value_or(Order::layer_major);
  strategy.precision = config.train.precision;
  strategy.state_format = {
      .split_master = config.optimizer.master == MasterFormat::split,
      .moments = config.optimizer.moments == MomentFormat::bf16 ? DType::bf16 : DType::fp32};
  strategy.microbatch = {config.train.microbatch, config.data.sequence_length};
  strategy.microbatches = config.microbatches();
  strategy.validation_microbatches = config.train.validate_every > 0 ? config.train.validation_batches : 0;
  strategy.saves = !config.checkpoint.path.empty() && config.checkpoint.every > 0;
  strategy.global_norm = config.optimizer.clip_norm > 0 || config.train.precision == DType::fp16;
  strategy.save.assign(model.units.size(), config.train.recompute == Recompute::none);
  const auto pinned = [](TierChoice choice) { return choice == TierChoice::device; };
  strategy.pins = {pinned(config.memory.parameters), pinned(config.memory.gradients), pinned(config.memory.activations)};
  strategy.state.assign(model.units.size(), Tier::host);
  return strategy;
}

Program lower_training(const Model& model, const Strategy& strategy) {
  return Lowering(model, strategy, strategy.microbatches).training();
}

Program lower_validation(const Model& model, const Strategy& strategy) {
  return Lowering(model, strategy, strategy.validation_microbatches).validation();
}

}  // namespace strata
