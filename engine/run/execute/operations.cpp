#include "engine/run/execute/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <limits>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "base/nth.h"
#include "base/watchdog.h"
#include "engine/device/elementwise_calls.h"
#include "engine/device/loss_calls.h"
#include "engine/device/row_calls.h"
#include "engine/device/state_calls.h"
#include "engine/model/model.h"
#include "engine/plan/lower/regions.h"
#include "optim/gradient_norm.h"

namespace strata {
namespace {

/// `transfer`, whose error names the file and then the buffer that was meant.
template <typename Transfer>
void for_buffer(const Buffer& buffer, const Transfer& transfer) {
  try {
    transfer();
  } catch (const IoError& error) {
    throw IoError(fmt::format("{}; it is {}", error.what(), buffer.name));
  }
}

/// Ranks add up nothing else.
Element summed_element(ElementType type) {
  switch (type) {
    case ElementType::fp32:
      return Element::fp32;
    case ElementType::bf16:
      return Element::bf16;
    case ElementType::fp64:
      return Element::fp64;
    default:
      throw std::logic_error(fmt::format("ranks cannot add up elements of {}", name_of(type)));
  }
}

const UnitPass& pass_of(const UnitPasses::Level& level, Operation operation) {
  switch (operation) {
    case Operation::forward:
      return level.forward;
    case Operation::input_gradient:
      return level.input_gradient;
    case Operation::weight_gradient:
      return level.weight_gradient;
    default:
      return level.backward;
  }
}

/// Elements of the operand if the instruction writes it and does not read it, or 0.
std::int64_t elements_begun(const Instruction& instruction, Role role) {
  const Operand* operand = instruction.find_operand(role);
  const bool is_read = std::ranges::find(instruction.reads, role, &Operand::role) != instruction.reads.end();
  return operand == nullptr || is_read ? 0 : operand->elements;
}

}  // namespace

Operations::Operations(Setup setup)
    : setup_(std::move(setup)),
      kernels_(setup_.streams->of(Lane::compute).kernels()),
      workers_(setup_.threads) {}

std::byte* Operations::address(BufferId id) const {
  return setup_.memory.at(setup_.program->buffer(id));
}

MeterCount Operations::take_count() {
  for (StoreQueue* queue : {setup_.spill.reads, setup_.spill.writes}) {
    if (queue == nullptr) continue;
    const StoreCount moved = queue->take_count();
    meter().move(Link::nvme_read, moved.read);
    meter().move(Link::nvme_write, moved.written);
    meter().touch_nvme(moved.end);
  }
  return meter().take();
}

/// One row of all elements.
Matrix Operations::flat(const Operand& operand) const {
  return {address(operand.buffer), dtype_of(operand.type), 1, operand.elements};
}

const UnitShare& Operations::share(const Instruction& instruction) const {
  return nth(setup_.shares, instruction.unit);
}

void Operations::perform(const Instruction& instruction, std::int64_t step) {
  switch (instruction.operation) {
    case Operation::load_data:
      return load_data(instruction, step);
    case Operation::copy_to_device:
    case Operation::copy_to_host:
      return copy(instruction);
    case Operation::read:
      return read(instruction);
    case Operation::write:
      return write(instruction);
    case Operation::forward:
    case Operation::backward:
    case Operation::input_gradient:
    case Operation::weight_gradient:
      return run_pass(instruction, step);
    case Operation::cast_gradient:
      return cast_gradient(instruction);
    case Operation::list_rows:
      return list_rows(instruction);
    case Operation::copy_rows:
      return copy_rows(instruction);
    case Operation::sum_rows:
      return sum_rows(instruction);
    case Operation::sum_of_squares:
      return sum_squares(instruction);
    case Operation::all_gather:
    case Operation::reduce_scatter:
    case Operation::all_reduce:
      return exchange(instruction);
    case Operation::ring_shift:
      return pass_around(instruction);
    case Operation::send:
    case Operation::receive:
      return pass_on(instruction);
    case Operation::add_gradient:
      return add_gradient(instruction);
    case Operation::sum_norms:
      return sum_norms(instruction);
    case Operation::sum_losses:
      return sum_losses(instruction, step);
    case Operation::loss:
      return loss(instruction, step);
    case Operation::join_logits:
      return join_logits(instruction);
    case Operation::choose_tokens:
      return choose_tokens(instruction);
    case Operation::take_tokens:
      return take_tokens(instruction);
    case Operation::step_scalars:
      return step_scalars(instruction, step);
    case Operation::stash:
      return stash(instruction);
    case Operation::pack:
      return pack(instruction);
    case Operation::unpack:
      return unpack(instruction);
    case Operation::grad_norm:
      return grad_norm(instruction, step);
    case Operation::update:
      return instruction.lane == Lane::cpu ? update_on_host(instruction) : update_on_device(instruction);
    case Operation::save:
      return save(instruction, step);
    case Operation::finish_checkpoint:
      return setup_.saver->finish();
  }
}

static_assert(MicrobatchData::kMost == kMostDataArrays);
static_assert(kUntrained == kNoTarget);

/// Its operands are the arrays that this rank's units read.
void Operations::load_data(const Instruction& instruction, std::int64_t step) {
  const WatchedWait wait([] { return std::string("reading the training data (data.path)"); });
  MicrobatchData data;
  for (const Operand& array : instruction.writes) {
    const std::span bytes = span_of(address(array.buffer), array.bytes());
    meter().touch(bytes);
    data.set(ordinal(array.role) - ordinal(Role::data_0), bytes);
  }
  setup_.load(step, instruction.microbatch, data);
}

void Operations::copy(const Instruction& instruction) {
  const BufferId source = instruction.reads[0].buffer, destination = instruction.writes[0].buffer;
  const Bytes bytes = setup_.program->buffer(source).bytes;
  if (instruction.operation == Operation::copy_to_device) {
    setup_.streams->of(instruction.lane).copy_to_device(address(destination), address(source), bytes);
  } else {
    setup_.streams->of(instruction.lane).copy_to_host(address(destination), address(source), bytes);
  }
}

void Operations::read(const Instruction& instruction) {
  const Buffer& source = setup_.program->buffer(instruction.reads[0].buffer);
  const std::span to = span_of(address(instruction.writes[0].buffer), source.bytes);
  meter().touch(to);
  for_buffer(source, [&] { setup_.spill.reads->read(source.offset, to); });
}

void Operations::write(const Instruction& instruction) {
  const Buffer& destination = setup_.program->buffer(instruction.writes[0].buffer);
  const std::span from = span_of(address(instruction.reads[0].buffer), destination.bytes);
  meter().touch(from);
  for_buffer(destination, [&] { setup_.spill.writes->write(destination.offset, from); });
}

bool Operations::has_loss(std::int64_t step) const {
  return !setup_.loss_terms || setup_.loss_terms(step) > 0;
}

std::int64_t Operations::loss_terms(std::int64_t step) const {
  const std::int64_t terms = setup_.loss_terms ? setup_.loss_terms(step) : setup_.program->loss_terms;
  return std::max<std::int64_t>(terms, 1);
}

void Operations::run_pass(const Instruction& instruction, std::int64_t step) {
  if (passes_.step != step) {
    const std::int64_t terms = loss_terms(step) / setup_.program->updates;
    passes_ = {step, 1.0F / static_cast<float>(terms)};
  }
  UnitMemory memory;
  memory.unit = share(instruction).number;
  for (const auto& [region, role] : kRegionRoles) memory[region] = operand<std::byte>(instruction, role);
  const UnitPasses::Level& level =
      nth(setup_.compute->passes(share(instruction).kind).levels, instruction.saved_level);
  const UnitPass& pass = pass_of(level, instruction.operation);
  const Segment& segment = nth(pass.segments(), instruction.segment);
  segment.run(kernels_, memory, passes_.loss_factor,
              {.gradient = elements_begun(instruction, Role::gradient),
               .shared_gradient = elements_begun(instruction, Role::shared_gradient)});
}

void Operations::cast_gradient(const Instruction& instruction) {
  kernels_.run(Cast{flat(instruction.reads[0]), flat(instruction.writes[0])});
}

void Operations::list_rows(const Instruction& instruction) {
  const std::span<std::int32_t> rows = span<std::int32_t>(instruction.writes[0]);
  const auto [first, count] = share(instruction).rows;
  auto end = rows.begin();
  for (const Operand& microbatch : instruction.reads) {
    for (const std::int32_t row : span<std::int32_t>(microbatch))
      if (first <= row && row < first + count) *end++ = row - static_cast<std::int32_t>(first);
  }
  std::sort(rows.begin(), end);
  std::fill(std::unique(rows.begin(), end), rows.end(), kNoRow);
}

/// The instruction's row numbers, and a matrix of what stands in those rows.
std::pair<std::span<const std::int32_t>, Matrix> Operations::rows_of(const Instruction& instruction) const {
  const Operand& rows = *instruction.find_operand(Role::rows);
  const Operand& values = *instruction.find_operand(Role::row_values);
  return {span<std::int32_t>(rows),
          {address(values.buffer), dtype_of(values.type), rows.elements, values.elements / rows.elements}};
}

void Operations::copy_rows(const Instruction& instruction) {
  const auto [rows, values] = rows_of(instruction);
  const Operand& gradient = *instruction.find_operand(Role::gradient);
  kernels_.run(RowCopy{
      {address(gradient.buffer), dtype_of(gradient.type), gradient.elements / values.columns, values.columns},
      rows,
      values});
}

void Operations::sum_rows(const Instruction& instruction) {
  const auto [rows, values] = rows_of(instruction);
  kernels_.run(RowSum{.ranks = nth(setup_.program->groups, instruction.exchange.group).ranks,
                      .rows = rows,
                      .values = values,
                      .first = share(instruction).first,
                      .out = flat(*instruction.find_operand(Role::destination))});
}

void Operations::sum_squares(const Instruction& instruction) {
  const Matrix gradient = flat(*instruction.find_operand(Role::gradient));
  auto* sum = operand<double>(instruction, Role::norm);
  bool accumulates = false;
  const auto add = [&](std::int64_t first, std::int64_t count) {
    const Matrix counted = gradient.column_slice(first, count);
    if (instruction.lane == Lane::cpu) {
      meter().touch(counted.data, count * size_of(gradient.dtype));
      meter().touch(sum, sizeof(*sum));
      workers_.execute([&] {
        const double added = sum_of_squares(counted.data, counted.dtype, count);
        *sum = accumulates ? *sum + added : added;
      });
    } else {
      kernels_.run(SumOfSquares{counted, sum, accumulates});
    }
    accumulates = true;
  };
  for (const auto [first, count] : share(instruction).counted)
    if (first < gradient.columns) add(first, std::min(count, gradient.columns - first));
  if (!accumulates) add(0, 0);
}

void Operations::add_gradient(const Instruction& instruction) {
  const Matrix given = flat(*instruction.find_operand(Role::source));
  const Matrix gradient = flat(*instruction.find_operand(Role::gradient));
  kernels_.run(Addition{gradient, given, gradient});
}

void Operations::sum_norms(const Instruction& instruction) {
  const double sum = squares(instruction);
  span<double>(instruction.writes[0])[0] = sum;
}

Communicator& Operations::group_of(const Instruction& instruction) const {
  return setup_.ranks->group_of(instruction);
}

Bytes Operations::sent_bytes(const Instruction& instruction) const {
  const bool exchanges = instruction.exchange.sent > 0;
  return exchanges ? static_cast<Bytes>(group_of(instruction).sent_bytes()) : 0;
}

/// The one that sends is the first of the two ranks of a message.
void Operations::pass_on(const Instruction& instruction) {
  Communicator& group = group_of(instruction);
  const bool sends = instruction.operation == Operation::send;
  const Operand& values = sends ? instruction.reads[0] : instruction.writes[0];
  std::byte* data = address(values.buffer);
  const auto bytes = static_cast<std::size_t>(values.bytes());
  meter().touch(data, values.bytes());
  sends ? group.send(data, bytes, Element::byte, 1) : group.receive(data, bytes, Element::byte, 0);
}

/// All ranks of the group send and receive at once.
void Operations::pass_around(const Instruction& instruction) {
  Communicator& group = group_of(instruction);
  const Operand& source = instruction.reads[0];
  const Operand& destination = instruction.writes[0];
  const std::byte* from = address(source.buffer) + source.offset;
  std::byte* to = address(destination.buffer) + destination.offset;
  meter().touch(from, source.bytes());
  meter().touch(to, destination.bytes());
  const auto bytes = static_cast<std::size_t>(source.bytes());
  const int ranks = group.size(), rank = group.rank();
  group.begin_group();
  group.send(from, bytes, Element::byte, (rank + 1) % ranks);
  group.receive(to, bytes, Element::byte, (rank + ranks - 1) % ranks);
  group.end_group();
}

void Operations::exchange(const Instruction& instruction) {
  Communicator& group = group_of(instruction);
  const Operand& source = instruction.reads[0];
  const Operand& destination = instruction.writes[0];
  const std::byte* from = address(source.buffer) + source.offset;
  std::byte* to = address(destination.buffer) + destination.offset;
  const auto count = static_cast<std::size_t>(destination.elements);
  const auto touch = [&](Bytes read, Bytes written) {
    meter().touch(from, read);
    meter().touch(to, written);
  };
  if (instruction.operation == Operation::all_gather) {
    touch(source.bytes(), group.size() * source.bytes());
    group.all_gather(from, to, static_cast<std::size_t>(source.bytes()), Element::byte);
  } else if (instruction.operation == Operation::reduce_scatter) {
    touch(group.size() * destination.bytes(), destination.bytes());
    group.reduce_scatter(from, to, count, summed_element(destination.type));
  } else {
    touch(destination.bytes(), destination.bytes());
    group.all_reduce(from, to, count, summed_element(destination.type));
  }
}

/// The losses of this rank's microbatches, which ranks take in turns; in a validation the last ranks' last
/// ones may not count.
void Operations::sum_losses(const Instruction& instruction, std::int64_t step) {
  const std::int64_t terms = setup_.program->loss_terms;
  double sum = 0;
  std::int64_t microbatch = setup_.data_rank;
  for (const Operand& losses : instruction.reads) {
    if (microbatch * losses.elements * setup_.context_ranks >= terms || !setup_.counts_losses) break;
    for (const float loss : span<float>(losses)) sum += loss;
    microbatch += setup_.data_ranks;
  }
  *value<StepSums>(instruction, Role::step_sums) = {
      .loss = sum / static_cast<double>(loss_terms(step)),
      .stops = setup_.stop_requested && setup_.stop_requested() ? 1.0 : 0.0};
}

void Operations::loss(const Instruction& instruction, std::int64_t step) {
  const StepSums& sums = *value<StepSums>(instruction, Role::step_sums);
  report_.step = step;
  report_.has_loss = has_loss(step);
  report_.loss = report_.has_loss ? sums.loss : std::numeric_limits<double>::quiet_NaN();
  if (sums.stops > 0) setup_.on_stop_agreed(step);
}

void Operations::join_logits(const Instruction& instruction) {
  const Operand& part = *instruction.find_operand(Role::logits);
  const std::int64_t rows = setup_.samples->rows();
  meter().touch(address(part.buffer), part.bytes());
  setup_.samples->join({address(part.buffer), dtype_of(part.type), rows, part.elements / rows},
                       span<float>(instruction.writes[0]));
}

void Operations::choose_tokens(const Instruction& instruction) {
  const bool has_logits = !instruction.reads.empty();
  setup_.samples->choose(has_logits ? span<float>(instruction.reads[0]) : std::span<float>(),
                         span<double>(instruction.writes[0]));
}

void Operations::take_tokens(const Instruction& instruction) {
  setup_.samples->take(span<double>(instruction.reads[0]));
}

}  // namespace strata
