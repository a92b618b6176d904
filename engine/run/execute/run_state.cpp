#include "engine/run/execute/run_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <stdexcept>

#include "base/nth.h"
#include "base/storage_type.h"
#include "base/task_arena.h"
#include "engine/model/compute.h"
#include "engine/model/kept_state.h"
#include "engine/model/model.h"
#include "engine/run/execute/block_scales.h"
#include "optim/split_master.h"
#include "optim/stored_values.h"
#include "optim/update_rule.h"

namespace strata {
namespace {

/// Elements of state that one thread writes at a time.
constexpr std::int64_t kPiece = 256 * 1024;

}  // namespace

StoredAs stored_as(ElementType type) {
  switch (type) {
    case ElementType::fp32:
      return StoredAs::floats;
    case ElementType::bf16:
      return StoredAs::bf16;
    case ElementType::fp16:
      return StoredAs::fp16;
    case ElementType::low_half:
      return StoredAs::split_masters;
    case ElementType::packed:
      return StoredAs::packed;
    case ElementType::coded:
      return StoredAs::coded;
    default:
      throw std::logic_error(fmt::format("no state is stored as {}", name_of(type)));
  }
}

RunState::RunState(const ModelPlan& plan, const Model& model, RunMemory& memory, Device& device,
                   std::int64_t rank, double watchdog_seconds)
    : plan_(plan),
      model_(model),
      memory_(memory),
      rank_(rank),
      addressable_(device.host_addressable()),
      instances_(find_instances(plan.training.program)),
      places_(find_places(plan.training.program)),
      copy_(device.make_stream(), watchdog_seconds) {}

bool RunState::UnitPlaces::is_empty() const {
  return copies.empty() && std::ranges::all_of(pieces, &std::vector<StateEntry>::empty);
}

std::vector<BufferId> RunState::find_instances(const Program& program) {
  std::vector<BufferId> instances(program.buffers.size(), -1);
  // Both halves of a split master are written where one update has them, so neither is in the other's place.
  for (const Operation transfer : {Operation::read, Operation::write}) {
    for (const Instruction& instruction : program.instructions) {
      if (instruction.operation != transfer) continue;
      const BufferId from = instruction.reads[0].buffer, to = instruction.writes[0].buffer;
      const bool is_read = transfer == Operation::read;
      nth(instances, is_read ? from : to) = is_read ? to : from;
    }
  }
  return instances;
}

std::vector<RunState::UnitPlaces> RunState::find_places(const Program& program) {
  std::vector<UnitPlaces> result(program.units.size());
  for (const StateEntry& place : program.state) {
    if (place.unit < 0) continue;
    UnitPlaces& unit = nth(result, place.unit);
    (place.part == StateKey::parameter ? unit.copies : unit.of(place.part)).push_back(place);
  }
  return result;
}

const StateEntry* RunState::find_place(StateKey part) const {
  const std::vector<StateEntry>& state = plan_.training.program.state;
  const auto found = std::ranges::find(state, part, &StateEntry::part);
  return found == state.end() ? nullptr : &*found;
}

/// The parameter's place that updates write: it has this rank's part.
BufferId RunState::high_halves(std::size_t unit) const {
  const std::vector<StateEntry>& copies = places_[unit].copies;
  return std::ranges::find_if(
             copies,
             [](const StateEntry& copy) { return !copy.is_whole && copy.type != ElementType::packed; })
      ->buffer;
}

std::byte* RunState::address(BufferId id) const {
  const Tier tier = buffer(id).tier;
  return tier == Tier::host || (tier == Tier::device && addressable_) ? memory_.tiers().at(buffer(id))
                                                                      : nullptr;
}

std::span<std::byte> RunState::stage(BufferId id, Arena& memory) const {
  const Bytes bytes = buffer(id).bytes;
  if (buffer(id).tier == Tier::nvme) return span_of(memory_.tiers().at(buffer(nth(instances_, id))), bytes);
  if (memory.size() < bytes) memory = Arena(bytes);
  return span_of(memory.data(), bytes);
}

std::span<const std::byte> RunState::read(BufferId id, Arena& memory) {
  const Buffer& from = buffer(id);
  if (const std::byte* data = address(id)) return span_of(data, from.bytes);
  const std::span<std::byte> to = stage(id, memory);
  if (from.tier == Tier::nvme) {
    memory_.spill().reads->read(from.offset, to);
  } else {
    copy_.to_host(to.data(), memory_.tiers().at(from), from.bytes, *from.name);
  }
  return to;
}

void RunState::write(BufferId id, std::span<const std::byte> bytes) {
  const Buffer& to = buffer(id);
  if (std::byte* data = address(id)) {
    std::ranges::copy(bytes, data);
  } else if (to.tier == Tier::nvme) {
    memory_.spill().writes->write(to.offset, bytes);
  } else {
    copy_.to_device(memory_.tiers().at(to), bytes.data(), static_cast<Bytes>(bytes.size()), *to.name);
  }
}

bool RunState::is_on_all(Flat flat) const {
  return flat == Flat::factors || (flat == Flat::frozen && !plan_.strategy.gathers());
}

FlatRange RunState::held(std::size_t unit, Flat flat) const {
  if (places_[unit].is_empty()) return {0, 0, flat};
  return is_on_all(flat) ? whole(model_.units[unit], flat)
                         : shard_of(model_.units[unit], mesh(), mesh().shard_rank(rank_), flat);
}

FlatRange RunState::saved(std::size_t unit, Flat flat) const {
  if (!plan_.strategy.has(static_cast<std::int32_t>(unit))) return {0, 0, flat};
  const FlatRange range = held(unit, flat);
  const std::int64_t holders = is_on_all(flat) ? mesh().holders() : mesh().replicate;
  const std::int64_t number = is_on_all(flat) ? mesh().holder(rank_) : mesh().replica(rank_);
  const auto border = [&](std::int64_t r) { return range.count * r / holders; };
  return {range.first + border(number), border(number + 1) - border(number), flat};
}

FlatRange RunState::loaded(std::size_t unit, StateKey key) const {
  const bool is_needed_whole =
      key == StateKey::master && std::ranges::any_of(places_[unit].copies, &StateEntry::is_whole);
  return is_needed_whole ? whole(model_.units[unit]) : held(unit, key);
}

FlatRange RunState::kept(std::size_t unit, StateKey key, FlatRange range) const {
  return kept_part(model_, model_.units[unit], key, range);
}

template <typename Value>
std::span<Value> RunState::part_of(const StateEntry& place, std::span<Value> values) const {
  if (place.piece.is_all()) return values;
  const auto unit = static_cast<std::size_t>(place.unit);
  const FlatRange all = held(unit, flat_of(place.part)), covered = held(unit, place.part);
  const std::int64_t begin = all.first + std::min(place.piece.first, all.count);
  const std::int64_t end = std::min(begin + place.piece.count, all.end());
  const FlatRange part = kept(unit, place.part, {begin, end - begin, all.flat});
  return slice(values, part.first - covered.first, part.count);
}

std::span<float> RunState::values_of(std::int64_t elements) {
  const Bytes bytes = elements * size_of(DType::fp32);
  if (values_.size() < bytes) values_ = Arena(bytes);
  return span_of(reinterpret_cast<float*>(values_.data()), elements);
}

/// How a place stores its values; valid until the next call. Split masters lack their high halves, and packed
/// parameters their packing.
StoredValues RunState::stored_values(const StateEntry& place) {
  StoredValues stored = {.as = stored_as(place.type), .values = read(place.buffer, stored_).data()};
  if (const std::optional<Moment> moment = moment_of(place.part)) stored.codes = codes_of(*moment);
  return stored;
}

/// The values of all pieces of what this rank holds, and of them those that it saves.
std::span<const float> RunState::read_pieces(std::size_t unit, StateKey key) {
  const FlatRange range = saved(unit, key), mine = held(unit, key);
  const std::span<float> values = values_of(mine.count);
  const std::span<const StateEntry> places = places_[unit].of(key);
  const bool is_split = stored_as(places.front().type) == StoredAs::split_masters;
  const auto* high =
      is_split ? reinterpret_cast<const bfloat16*>(read(high_halves(unit), stored_parameter_).data())
               : nullptr;
  // What a piece is staged in may be where the parameter was, so its halves wait among the values.
  if (is_split)
    std::transform(high, high + mine.count, values.begin(), [](bfloat16 half) { return float(half); });
  for (const StateEntry& place : places) {
    const std::span<float> part = part_of(place, values);
    const StoredValues stored = stored_values(place);
    if (is_split) {
      const auto* low = static_cast<const Remainder*>(stored.values);
      std::transform(part.begin(), part.end(), low, part.begin(),
                     [](float half, Remainder remainder) { return join_master(bfloat16(half), remainder); });
    } else {
      std::ranges::copy(stored.read(0, std::ssize(part), part), part.begin());
    }
  }
  return slice(values, range.first - mine.first, range.count);
}

std::span<const float> RunState::read(std::size_t unit, StateKey key) {
  const StateEntry& place = places_[unit].of(key).front();
  if (!place.piece.is_all()) return read_pieces(unit, key);
  StoredValues stored = stored_values(place);
  // On the nvme tier both halves are staged where one update has them, so that neither is in the other's
  // place.
  if (stored.as == StoredAs::split_masters)
    stored.parameter = reinterpret_cast<const bfloat16*>(read(high_halves(unit), stored_parameter_).data());
  const FlatRange range = saved(unit, key);
  const Packing packing = stored.as == StoredAs::packed ? packing_of(unit, range.flat) : Packing();
  stored.packing = &packing;
  stored.part = packed_part(packing);
  const std::span<float> memory = stored.as == StoredAs::floats ? std::span<float>() : values_of(range.count);
  return stored.read(range.first - held(unit, key).first, range.count, memory);
}

template <typename Fill>
void RunState::fill(BufferId id, const Fill& fill) {
  if (std::byte* data = address(id)) return fill(data);
  const std::span<std::byte> bytes = stage(id, stored_);
  fill(bytes.data());
  write(id, bytes);
}

template <typename Stored, typename Convert>
void RunState::store(BufferId id, std::span<const float> values, const Convert& convert) {
  fill(id, [&](std::byte* bytes) {
    auto* stored = reinterpret_cast<Stored*>(bytes);
    for_ranges(std::ssize(values), kPiece, [&](std::int64_t first, std::int64_t last, int) {
      std::transform(values.data() + first, values.data() + last, stored + first, convert);
    });
  });
}

void RunState::store_coded(const StateEntry& place, std::span<const float> values) {
  const MomentCodes codes = codes_of(*moment_of(place.part));
  fill(place.buffer, [&](std::byte* blocks) {
    const std::int64_t all = std::ssize(values);
    for_ranges((all + kPiece - 1) / kPiece, 1, [&](std::int64_t begin, std::int64_t end, int) {
      const std::int64_t first = begin * kPiece, last = std::min(end * kPiece, all);
      encode_moment(codes, slice(values, first, last - first), blocks + coded_offset(first));
    });
  });
}

Packing RunState::packing_of(std::size_t unit, Flat flat) const {
  return strata::packing_of(model_, plan_.strategy, unit, flat);
}

/// The part of what is so packed that this rank has, if ranks have parts.
std::size_t RunState::packed_part(const Packing& packing) const {
  return packing.parts.size() <= 1 ? 0 : static_cast<std::size_t>(mesh().shard_rank(rank_));
}

template <typename Stored, typename Convert>
void RunState::store_packed(const StateEntry& place, Flat flat, std::span<const float> values,
                            const Convert& convert, const ReadTensor& read_tensor) {
  const Packing packing = packing_of(static_cast<std::size_t>(place.unit), flat);
  const Bytes part_bytes = packing.part_elements * Bytes{sizeof(Stored)};
  if (stored_parameter_.size() < part_bytes) stored_parameter_ = Arena(part_bytes);
  const std::span elements =
      span_of(reinterpret_cast<Stored*>(stored_parameter_.data()), packing.part_elements);
  const std::size_t first = place.is_whole ? 0 : packed_part(packing);
  const std::size_t last = place.is_whole ? packing.parts.size() : first + 1;
  fill(place.buffer, [&](std::byte* packed) {
    for (std::size_t part = first; part < last; ++part, packed += packing.part_bytes) {
      const std::span<const float> mine = values.first(std::min(values.size(), elements.size()));
      for_ranges(std::ssize(mine), kPiece, [&](std::int64_t begin, std::int64_t end, int) {
        std::transform(mine.data() + begin, mine.data() + end, elements.data() + begin, convert);
      });
      std::fill(elements.begin() + std::ssize(mine), elements.end(), Stored(0.0F));
      const BlockScales scales{nth(model_.units, place.unit), flat, plan_.strategy.packed.format_of(flat),
                               read_tensor};
      scales.write(packing, part, elements.data(), packed);
      pack(packing, part, elements.data(), packed);
      values = values.subspan(mine.size());
    }
  });
}

void RunState::store(const StateEntry& place, std::span<const float> values, const ReadTensor& read_tensor) {
  if (place.type == ElementType::coded) return store_coded(place, values);
  const bool is_packed = place.type == ElementType::packed;
  with_storage_type(is_packed ? plan_.strategy.precision : dtype_of(place.type), [&]<typename T>(T) {
    const auto rounded = [](float value) { return T(value); };
    if (!is_packed) return store<T>(place.buffer, values, rounded);
    store_packed<T>(place, place.part == StateKey::frozen ? Flat::frozen : Flat::trained, values, rounded,
                    read_tensor);
  });
}

void RunState::write(std::size_t unit, StateKey key, const std::function<void(std::span<float>)>& fill,
                     const ReadTensor& read_tensor) {
  const std::vector<StateEntry>& places = places_[unit].of(key);
  const FlatRange range = loaded(unit, key), mine = held(unit, key);
  const auto is_of_master = key == StateKey::master;
  if (places.empty() && (!is_of_master || places_[unit].copies.empty())) return;  // another stage's
  const auto are_stored_as = [&](StoredAs as) {
    return !places.empty() && stored_as(places.front().type) == as;
  };
  const bool is_floats = are_stored_as(StoredAs::floats), is_split = are_stored_as(StoredAs::split_masters);
  if (is_floats && places.front().piece.is_all() &&
      range == mine) {  // then they are made where they stay, or where they are staged
    const BufferId id = places.front().buffer;
    std::byte* data = address(id);
    const std::span<std::byte> bytes = data != nullptr ? span_of(data, buffer(id).bytes) : stage(id, values_);
    const std::span values = span_of(reinterpret_cast<float*>(bytes.data()), mine.count);
    fill(values);
    if (data == nullptr) write(id, bytes);
    if (is_of_master) write_copies(unit, values, values);
    return;
  }
  const std::span<float> values = values_of(range.count);
  fill(values);
  const std::span<const float> shard = slice(values, mine.first - range.first, mine.count);
  for (const StateEntry& piece : places) {
    const std::span<const float> part = part_of(piece, shard);
    if (is_floats) {
      store<float>(piece.buffer, part, std::identity());
    } else if (is_split) {
      store<Remainder>(piece.buffer, part, [](float value) { return split_master(value).remainder; });
    } else {
      store(piece, part, read_tensor);
    }
  }
  if (is_of_master) write_copies(unit, values, shard);
}

void RunState::write_copies(std::size_t unit, std::span<const float> whole, std::span<const float> shard) {
  const bool is_split = plan_.strategy.state_format.master == MasterFormat::split;
  for (const StateEntry& copy : places_[unit].copies) {
    const std::span<const float> values = copy.is_whole ? whole : shard;
    const auto high_half = [](float value) { return split_master(value).parameter; };
    if (is_split && copy.type == ElementType::packed) {
      store_packed<bfloat16>(copy, Flat::trained, values, high_half);
    } else if (is_split) {
      store<bfloat16>(copy.buffer, values, high_half);
    } else {
      store(copy, values);
    }
  }
}

void RunState::clear_moments() {
  for (std::size_t unit = 0; unit < places_.size(); ++unit) {
    for (const StateKey key : keys_of(model_)) {
      if (are_weights(key) || model_.units[unit].elements_of(flat_of(key)) == 0) continue;
      write(unit, key, [](std::span<float> moment) {
        for_ranges(std::ssize(moment), kPiece, [&](std::int64_t first, std::int64_t last, int) {
          std::fill(moment.data() + first, moment.data() + last, 0.0F);
        });
      });
    }
  }
}

StateAccess RunState::access() {
  return {.saved = [this](std::size_t unit, Flat flat) { return saved(unit, flat); },
          .read = [this](std::size_t unit, StateKey key) { return read(unit, key); },
          .loaded = [this](std::size_t unit, StateKey key) { return loaded(unit, key); },
          .write = [this](std::size_t unit, StateKey key, const auto& fill,
                          const ReadTensor& read_tensor) { write(unit, key, fill, read_tensor); }};
}

LossScale RunState::loss_scale() {
  LossScale scale;
  if (const StateEntry* place = find_place(StateKey::loss_scale))
    std::memcpy(&scale, read(place->buffer).data(), sizeof(scale));
  return scale;
}

void RunState::write_loss_scale(const LossScale& scale) {
  if (const StateEntry* place = find_place(StateKey::loss_scale))
    write(place->buffer, std::as_bytes(std::span(&scale, 1)));
}

void RunState::write_constants() {
  const StateEntry* place = find_place(StateKey::constants);
  if (place == nullptr) return;
  auto tables = sized<std::vector<std::byte>>(buffer(place->buffer).bytes);
  unit_compute(model_, plan_.strategy.precision, plan_.strategy.microbatch)->fill_constants(tables);
  write(place->buffer, tables);
}

}  // namespace strata
