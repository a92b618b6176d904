#include "engine/execute/run_state.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>

#include "base/storage_type.h"
#include "engine/execute/measure.h"
#include "engine/model/compute.h"
#include "optim/split_master.h"
#include "optim/stored_values.h"

namespace strata {
namespace {

BufferId find_loss_scale(const Program& program) {
  for (const Instruction& instruction : program.instructions) {
    if (instruction.operation == Operation::grad_norm) return instruction.find(Role::loss_scale);
  }
  return -1;
}

std::unique_ptr<Store> open_store_for(const Plan& plan, StoreOptions options) {
  options.bytes = plan.arena_bytes(Tier::nvme);
  return options.bytes > 0 ? open_store(options) : nullptr;
}

}  // namespace

RunState::RunState(const Plan& plan, const Model& model, Device& device, StoreOptions store,
                   double watchdog_seconds)
    : plan_(plan),
      model_(model),
      rank_(store.rank.rank),
      addressable_(device.host_addressable()),
      instances_(find_instances(plan.training.program)),
      buffers_(find_buffers(plan.training.program, plan.strategy.mesh, instances_)),
      loss_scale_(find_loss_scale(plan.training.program)),
      host_arena_(plan.arena_bytes(Tier::host)),
      pinned_(device.pin({host_arena_.data(), static_cast<std::size_t>(host_arena_.size())})),
      device_memory_(device.allocate(plan.arena_bytes(Tier::device))),
      store_(open_store_for(plan, std::move(store))),
      reads_(store_ ? store_->open_queue() : nullptr),
      writes_(store_ ? store_->open_queue() : nullptr),
      copy_(device.make_stream(), watchdog_seconds) {}

std::vector<BufferId> RunState::find_instances(const Program& program) {
  std::vector<BufferId> instances(program.buffers.size(), -1);
  for (const Instruction& instruction : program.instructions) {
    if (instruction.operation == Operation::write)
      instances[static_cast<std::size_t>(instruction.writes[0].buffer)] = instruction.reads[0].buffer;
  }
  return instances;
}

/// Each unit's adamw instruction names its buffers; for those that it meets on the host only for a while, the
/// home.
std::vector<RunState::UnitBuffers> RunState::find_buffers(const Program& program, const Mesh& mesh,
                                                          const std::vector<BufferId>& instances) {
  std::vector<BufferId> home(program.buffers.size());
  std::iota(home.begin(), home.end(), 0);
  for (std::size_t id = 0; id < instances.size(); ++id) {
    if (instances[id] >= 0) home[static_cast<std::size_t>(instances[id])] = static_cast<BufferId>(id);
  }
  std::vector<UnitBuffers> result(program.units.size());
  for (const Instruction& instruction : program.instructions) {
    if (instruction.operation != Operation::adamw) continue;
    const auto find = [&](Role role) {
      const BufferId id = instruction.find(role);
      return id < 0 ? id : home[static_cast<std::size_t>(id)];
    };
    UnitBuffers& buffers = result[static_cast<std::size_t>(instruction.unit)];
    buffers.parameter = find(Role::parameter);
    const BufferId master = find(Role::master);
    buffers.master = master < 0 ? buffers.parameter : master;  // fp32: the parameter is its own master
    buffers.exp_avg = find(Role::exp_avg);
    buffers.exp_avg_sq = find(Role::exp_avg_sq);
  }
  std::map<std::string, std::pair<std::size_t, bool>> parameters;  // by name: unit, whether it is whole
  for (std::size_t u = 0; u < program.units.size(); ++u) {
    parameters[program.units[u] + "/parameter"] = {u, true};
    parameters[program.units[u] + "/parameter_shard"] = {u, false};
  }
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    const auto found = parameters.find(buffer.name);
    if (!buffer.persistent || found == parameters.end()) continue;
    UnitBuffers& buffers = result[found->second.first];
    const auto id = static_cast<BufferId>(b);
    if (id != buffers.master) buffers.copies.push_back({id, found->second.second && mesh.shard > 1});
  }
  return result;
}

BufferId RunState::buffer_of(std::size_t unit, StateKind kind) const {
  const UnitBuffers& buffers = buffers_[unit];
  switch (kind) {
    case StateKind::master:
      return buffers.master;
    case StateKind::exp_avg:
      return buffers.exp_avg;
    case StateKind::exp_avg_sq:
      return buffers.exp_avg_sq;
  }
  return -1;
}

std::byte* RunState::address(BufferId id) const {
  const Tier tier = buffer(id).tier;
  return tier == Tier::host || (tier == Tier::device && addressable_) ? memory().at(buffer(id)) : nullptr;
}

std::span<std::byte> RunState::stage(BufferId id, Arena& memory) const {
  const auto bytes = static_cast<std::size_t>(buffer(id).bytes);
  if (buffer(id).tier == Tier::nvme)
    return {this->memory().at(buffer(instances_[static_cast<std::size_t>(id)])), bytes};
  if (memory.size() < buffer(id).bytes) memory = Arena(buffer(id).bytes);
  return {memory.data(), bytes};
}

std::span<const std::byte> RunState::read(BufferId id, Arena& memory) {
  const Buffer& from = buffer(id);
  if (const std::byte* data = address(id)) return {data, static_cast<std::size_t>(from.bytes)};
  const std::span<std::byte> to = stage(id, memory);
  if (from.tier == Tier::nvme) {
    reads_->read(from.offset, to);
  } else {
    copy_.to_host(to.data(), this->memory().at(from), from.bytes, from.name);
  }
  return to;
}

void RunState::write(BufferId id, std::span<const std::byte> bytes) {
  const Buffer& to = buffer(id);
  if (std::byte* data = address(id)) {
    std::ranges::copy(bytes, data);
  } else if (to.tier == Tier::nvme) {
    writes_->write(to.offset, bytes);
  } else {
    copy_.to_device(memory().at(to), bytes.data(), static_cast<Bytes>(bytes.size()), to.name);
  }
}

StoredAs RunState::stored_as(StateKind kind) const {
  const StateFormat& format = plan_.strategy.state_format;
  return kind == StateKind::master ? masters_stored_as(format) : moments_stored_as(format);
}

FlatRange RunState::held(std::size_t unit) const {
  return shard_of(model_.units[unit], mesh(), mesh().shard_rank(rank_));
}

FlatRange RunState::saved(std::size_t unit) const {
  const FlatRange shard = held(unit);
  const std::int64_t replica = mesh().replica(rank_);
  const auto border = [&](std::int64_t r) { return shard.count * r / mesh().replicate; };
  return {shard.first + border(replica), border(replica + 1) - border(replica)};
}

FlatRange RunState::loaded(std::size_t unit, StateKind kind) const {
  const bool is_needed_whole =
      kind == StateKind::master && std::ranges::any_of(buffers_[unit].copies, &Copy::is_whole);
  return is_needed_whole ? whole(model_.units[unit]) : held(unit);
}

std::span<float> RunState::values_of(std::int64_t elements) {
  const Bytes bytes = elements * size_of(DType::fp32);
  if (values_.size() < bytes) values_ = Arena(bytes);
  return {reinterpret_cast<float*>(values_.data()), static_cast<std::size_t>(elements)};
}

std::span<const float> RunState::read(std::size_t unit, StateKind kind) {
  StoredValues stored = {.as = stored_as(kind), .values = read(buffer_of(unit, kind), stored_).data()};
  // On the nvme tier both halves are staged where one update has them, so that neither is in the other's
  // place.
  if (stored.as == StoredAs::split_masters)
    stored.parameter =
        reinterpret_cast<const bfloat16*>(read(buffers_[unit].parameter, stored_parameter_).data());
  const FlatRange range = saved(unit);
  const std::span<float> memory = stored.as == StoredAs::floats ? std::span<float>() : values_of(range.count);
  return stored.read(range.first - held(unit).first, range.count, memory);
}

template <typename Stored, typename Convert>
void RunState::store(BufferId id, std::span<const float> values, const Convert& convert) {
  std::byte* data = address(id);
  const std::span<std::byte> bytes =
      data != nullptr ? std::span(data, static_cast<std::size_t>(buffer(id).bytes)) : stage(id, stored_);
  std::ranges::transform(values, reinterpret_cast<Stored*>(bytes.data()), convert);
  if (data == nullptr) write(id, bytes);
}

void RunState::write(std::size_t unit, StateKind kind, const std::function<void(std::span<float>)>& fill) {
  const BufferId id = buffer_of(unit, kind);
  const FlatRange range = loaded(unit, kind), mine = held(unit);
  const bool is_floats = stored_as(kind) == StoredAs::floats;
  const auto is_of_master = kind == StateKind::master;
  if (is_floats && range == mine) {  // then they are made where they stay, or where they are staged
    std::byte* data = address(id);
    const std::span<std::byte> bytes =
        data != nullptr ? std::span(data, static_cast<std::size_t>(buffer(id).bytes)) : stage(id, values_);
    const std::span values(reinterpret_cast<float*>(bytes.data()), static_cast<std::size_t>(mine.count));
    fill(values);
    if (data == nullptr) write(id, bytes);
    if (is_of_master) write_copies(unit, values, values);
    return;
  }
  const std::span<float> values = values_of(range.count);
  fill(values);
  const std::span<const float> shard = values.subspan(static_cast<std::size_t>(mine.first - range.first),
                                                      static_cast<std::size_t>(mine.count));
  if (is_floats) {
    store<float>(id, shard, std::identity());
  } else if (is_of_master) {
    store<Remainder>(id, shard, [](float value) { return split_master(value).remainder; });
  } else {
    store<bfloat16>(id, shard, [](float value) { return bfloat16(value); });
  }
  if (is_of_master) write_copies(unit, values, shard);
}

void RunState::write_copies(std::size_t unit, std::span<const float> whole, std::span<const float> shard) {
  for (const Copy& copy : buffers_[unit].copies) {
    const std::span<const float> values = copy.is_whole ? whole : shard;
    if (plan_.strategy.state_format.split_master) {
      store<bfloat16>(copy.buffer, values, [](float value) { return split_master(value).parameter; });
    } else {
      with_storage_type(plan_.strategy.precision, [&]<typename T>(T) {
        store<T>(copy.buffer, values, [](float value) { return T(value); });
      });
    }
  }
}

void RunState::clear_moments() {
  for (std::size_t unit = 0; unit < buffers_.size(); ++unit) {
    for (const StateKind kind : {StateKind::exp_avg, StateKind::exp_avg_sq}) {
      write(unit, kind, [](std::span<float> moment) { std::ranges::fill(moment, 0.0F); });
    }
  }
}

void RunState::measure_nvme(MachineRates& rates) {
  if (!store_) return;
  // What is written is read again, so the host's memory stays as it is.
  constexpr Bytes kMeasured = 256 * MiB;
  const Bytes bytes =
      std::min({kMeasured, store_->bytes(), host_arena_.size()}) / kBufferAlignment * kBufferAlignment;
  const std::span memory(host_arena_.data(), static_cast<std::size_t>(bytes));
  const auto rate = [&](double seconds) { return static_cast<double>(bytes) / seconds; };
  for (int repetition = 0; repetition < 2; ++repetition) {
    rates.nvme_write_bytes_per_second = std::max(rates.nvme_write_bytes_per_second,
                                                 rate(seconds_on_host([&] { writes_->write(0, memory); })));
    rates.nvme_read_bytes_per_second =
        std::max(rates.nvme_read_bytes_per_second, rate(seconds_on_host([&] { reads_->read(0, memory); })));
  }
}

StateAccess RunState::access() {
  return {.saved = [this](std::size_t unit) { return saved(unit); },
          .read = [this](std::size_t unit, StateKind kind) { return read(unit, kind); },
          .loaded = [this](std::size_t unit, StateKind kind) { return loaded(unit, kind); },
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
