#include "engine/execute/run_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "engine/base/error.h"
#include "engine/model/compute.h"

namespace strata {
namespace {

constexpr double kCopyWatchdogSeconds = 900;

BufferId find_loss_scale(const Program& program) {
  for (const Instruction& instruction : program.instructions) {
    if (instruction.operation == Operation::grad_norm) return instruction.find(Role::loss_scale);
  }
  return -1;
}

/// The compute copy of a master, in a 16-bit `dtype`.
void round_to(std::span<const float> master, DType dtype, void* parameter) {
  const auto round = [&]<typename T>(T* to) { std::ranges::transform(master, to, [](float value) { return T(value); }); };
  if (dtype == DType::bf16) {
    round(static_cast<bfloat16*>(parameter));
  } else {
    round(static_cast<float16*>(parameter));
  }
}

}  // namespace

RunState::RunState(const Plan& plan, const Model& model, Device& device)
    : plan_(plan),
      model_(model),
      addressable_(device.host_addressable()),
      buffers_(find_buffers(plan.training.program, model.units.size())),
      loss_scale_(find_loss_scale(plan.training.program)),
      host_arena_(plan.arena_bytes(Tier::host)),
      pinned_(device.pin({host_arena_.data(), static_cast<std::size_t>(host_arena_.size())})),
      device_memory_(device.allocate(plan.arena_bytes(Tier::device))),
      stream_(device.make_stream()),
      copied_(stream_->make_event()) {}

/// Each unit's adamw instruction names its buffers.
std::vector<RunState::UnitBuffers> RunState::find_buffers(const Program& program, std::size_t units) {
  std::vector<UnitBuffers> result(units);
  for (const Instruction& instruction : program.instructions) {
    if (instruction.operation != Operation::adamw) continue;
    UnitBuffers& buffers = result[static_cast<std::size_t>(instruction.unit)];
    buffers.parameter = instruction.find(Role::parameter);
    const BufferId master = instruction.find(Role::master);
    buffers.master = master < 0 ? buffers.parameter : master;  // fp32: the parameter is its own master
    buffers.exp_avg = instruction.find(Role::exp_avg);
    buffers.exp_avg_sq = instruction.find(Role::exp_avg_sq);
  }
  return result;
}

BufferId RunState::buffer_of(std::size_t unit, StateKind kind) const {
  const UnitBuffers& buffers = buffers_[unit];
  switch (kind) {
    case StateKind::master: return buffers.master;
    case StateKind::exp_avg: return buffers.exp_avg;
    case StateKind::exp_avg_sq: return buffers.exp_avg_sq;
  }
  return -1;
}

std::byte* RunState::address(BufferId id) const {
  return addressable_ || buffer(id).tier == Tier::host ? memory().at(buffer(id)) : nullptr;
}

void RunState::wait_for_copy(BufferId id) {
  stream_->record(*copied_);
  if (copied_->wait(kCopyWatchdogSeconds)) return;
  throw DeviceError(fmt::format("a copy of {} did not end within {} s", buffer(id).name, kCopyWatchdogSeconds));
}

std::span<const std::byte> RunState::read(BufferId id) {
  const auto bytes = static_cast<std::size_t>(buffer(id).bytes);
  if (const std::byte* data = address(id)) return {data, bytes};
  staging_.resize(bytes);
  stream_->copy_to_host(staging_.data(), memory().at(buffer(id)), buffer(id).bytes);
  wait_for_copy(id);
  return staging_;
}

void RunState::write(BufferId id, std::span<const std::byte> bytes) {
  if (std::byte* data = address(id)) {
    std::ranges::copy(bytes, data);
    return;
  }
  stream_->copy_to_device(memory().at(buffer(id)), bytes.data(), static_cast<Bytes>(bytes.size()));
  wait_for_copy(id);
}

std::span<const float> RunState::read(std::size_t unit, StateKind kind) {
  const std::span<const std::byte> bytes = read(buffer_of(unit, kind));
  return {reinterpret_cast<const float*>(bytes.data()), static_cast<std::size_t>(model_.units[unit].elements)};
}

void RunState::write(std::size_t unit, StateKind kind, const std::function<void(std::span<float>)>& fill) {
  const BufferId id = buffer_of(unit, kind);
  const auto elements = static_cast<std::size_t>(model_.units[unit].elements);
  auto* data = reinterpret_cast<float*>(address(id));
  if (data == nullptr) staged_state_.resize(elements);
  const std::span<float> values = data != nullptr ? std::span(data, elements) : std::span(staged_state_);
  fill(values);
  if (data == nullptr) write(id, std::as_bytes(values));
  if (kind == StateKind::master && plan_.strategy.precision != DType::fp32) write_parameter(unit, values);
}

void RunState::write_parameter(std::size_t unit, std::span<const float> master) {
  const BufferId id = buffers_[unit].parameter;
  const DType dtype = plan_.strategy.precision;
  if (std::byte* data = address(id)) return round_to(master, dtype, data);
  staged_parameter_.resize(master.size() * static_cast<std::size_t>(size_of(dtype)));
  round_to(master, dtype, staged_parameter_.data());
  write(id, staged_parameter_);
}

StateAccess RunState::access() {
  return {.read = [this](std::size_t unit, StateKind kind) { return read(unit, kind); },
          .write = [this](std::size_t unit, StateKind kind, const auto& fill) { write(unit, kind, fill); }};
}

LossScale RunState::loss_scale() {
  LossScale scale;
  if (loss_scale_ >= 0) std::memcpy(&scale, read(loss_scale_).data(), sizeof(scale));
  return scale;
}

void RunState::write_loss_scale(const LossScale& scale) {
  if (loss_scale_ >= 0) write(loss_scale_, std::as_bytes(std::span(&scale, 1)));
}

void RunState::write_constants() {
  if (buffer(0).name != "constants") return;
  std::vector<std::byte> tables(static_cast<std::size_t>(buffer(0).bytes));
  UnitCompute(model_, plan_.strategy.precision, plan_.strategy.microbatch).fill_constants(tables);
  write(0, tables);
}

}  // namespace strata
