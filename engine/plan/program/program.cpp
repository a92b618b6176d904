#include "engine/plan/program/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "base/nth.h"

namespace strata {

std::string_view name_of(Tier tier) {
  constexpr EnumTable<Tier, std::string_view> names = {"device", "host", "nvme"};
  return names[tier];
}

std::string_view name_of(Lane lane) {
  constexpr EnumTable<Lane, std::string_view> names = {"compute", "h2d",    "d2h",     "comm", "send",
                                                       "receive", "tensor", "context", "read", "write",
                                                       "data",    "cpu",    "save"};
  return names[lane];
}

std::string_view name_of(BufferKind kind) {
  constexpr EnumTable<BufferKind, std::string_view> names = {"parameter",  "gradient",  "optimizer_state",
                                                             "activation", "workspace", "communication"};
  return names[kind];
}

std::string_view name_of(Operation operation) {
  constexpr std::array names = std::to_array<std::string_view>({"load_data",
                                                                "copy_to_device",
                                                                "copy_to_host",
                                                                "read",
                                                                "write",
                                                                "forward",
                                                                "backward",
                                                                "input_gradient",
                                                                "weight_gradient",
                                                                "cast_gradient",
                                                                "list_rows",
                                                                "copy_rows",
                                                                "sum_rows",
                                                                "sum_of_squares",
                                                                "all_gather",
                                                                "reduce_scatter",
                                                                "all_reduce",
                                                                "ring_shift",
                                                                "send",
                                                                "receive",
                                                                "add_gradient",
                                                                "sum_norms",
                                                                "sum_losses",
                                                                "loss",
                                                                "join_logits",
                                                                "choose_tokens",
                                                                "take_tokens",
                                                                "step_scalars",
                                                                "stash",
                                                                "pack",
                                                                "unpack",
                                                                "grad_norm",
                                                                "mix_momentum",
                                                                "precondition",
                                                                "update",
                                                                "save",
                                                                "finish_checkpoint"});
  static_assert(names.size() == kOperations);
  return nth(names, operation);
}

std::string_view name_of(Role role) {
  for (const Moment moment : kMoments)
    if (role == role_of(moment)) return name_of(moment);
  constexpr std::array names = std::to_array<std::string_view>(
      {"source",          "destination",     "parameter", "shared_parameter", "frozen",       "shared_frozen",
       "gradient",        "shared_gradient", "rows",      "row_values",       "input",        "output",
       "output_gradient", "input_gradient",  "saved",     "pending",          "workspace",    "constants",
       "data_0",          "data_1",          "data_2",    "data_3",           "losses",       "logits",
       "master",          "factors",         "norm",      "step_sums",        "step_scalars", "loss_scale",
       "step_record",     "tally",           "ring_0",    "ring_1",           "ring_2",       "ring_3"});
  static_assert(names.size() + kMoments.size() == ordinal(Role::ring_3) + 1);
  const auto number = ordinal(role);
  return names[role < Role::moment ? number : number - kMoments.size()];
}

std::string_view name_of(Effect effect) {
  constexpr std::array names = std::to_array<std::string_view>({"none", "decides", "reports"});
  return nth(names, effect);
}

std::string_view text_of(Serves serves) {
  constexpr std::array texts =
      std::to_array<std::string_view>({"", " for the step before", " for both steps", " for the first step"});
  return nth(texts, serves);
}

const Operand* Instruction::find_operand(Role role) const {
  for (const OperandList* operands : {&reads, &writes}) {
    for (const Operand& operand : *operands) {
      if (operand.role == role) return &operand;
    }
  }
  return nullptr;
}

BufferId Instruction::find(Role role) const {
  const Operand* operand = find_operand(role);
  return operand == nullptr ? -1 : operand->buffer;
}

BufferId Program::add(Buffer buffer) {
  buffers.push_back(std::move(buffer));
  return static_cast<BufferId>(buffers.size()) - 1;
}

Program Program::outline() const {
  Program result;
  result.units = units;
  result.works = works;
  result.groups = groups;
  result.state = state;
  result.loss_terms = loss_terms;
  result.updates = updates;
  return result;
}

double executed_flops(const Program& program) {
  long double flops = 0;  // exact up to 2^64: equal work in another order has an equal sum
  for (const Instruction& instruction : program.instructions) {
    if (instruction.when == When::every_step) flops += instruction.flops;
  }
  return static_cast<double>(flops);
}

namespace {

constexpr std::int32_t kNever = std::numeric_limits<std::int32_t>::max();

}  // namespace

std::vector<Lifetime> lifetimes(const Program& program) {
  LifetimeFinder finder(program);
  const auto count = static_cast<std::int32_t>(program.instructions.size());
  for (std::int32_t i = 0; i < count; ++i) {
    const Instruction& instruction = nth(program.instructions, i);
    for_each_operand(instruction, [&](const Operand& operand, bool writes) {
      finder.touch(operand.buffer, i, instruction.serves, writes);
    });
  }
  return finder.find(count);
}

void mark_renewed(Program& program) {
  const bool is_whole_in_each_round =
      std::ranges::all_of(program.instructions, [](const Instruction& instruction) {
        return instruction.serves == Serves::step || instruction.serves == Serves::first_step;
      });
  if (!is_whole_in_each_round) return;
  struct Uses {
    bool is_used = false, is_written = false;
  };
  std::vector<Uses> uses(program.buffers.size());
  for (const Instruction& instruction : program.instructions) {
    for (const Operand& operand : instruction.reads) nth(uses, operand.buffer).is_used = true;
    for (const Operand& operand : instruction.writes) {
      const BufferId id = operand.buffer;
      Buffer& buffer = nth(program.buffers, id);
      const bool is_first = !std::exchange(nth(uses, id).is_written, true);
      const bool is_read = std::ranges::any_of(
          instruction.reads, [&](const Operand& read) { return read.buffer == operand.buffer; });
      if (is_first && nth(uses, id).is_used && !is_read && buffer.persistent && !buffer.apart &&
          instruction.when == When::every_step && operand.bytes() + kBufferAlignment > buffer.bytes)
        buffer.renewed = true;
    }
  }
}

LifetimeFinder::LifetimeFinder(const Program& program)
    : program_(program), touches_(program.buffers.size()), renewed_at_(program.buffers.size(), kNever) {}

void LifetimeFinder::touch(BufferId id, std::int32_t position, Serves serves, bool writes) {
  const Buffer& buffer = program_.buffer(id);
  if (buffer.renewed) {
    std::int32_t& renewed = nth(renewed_at_, id);
    if (writes) renewed = std::min(renewed, position);
    uses_.push_back({id, position});
  }
  Touches& touches = nth(touches_, id);
  const bool is_late = buffer.carried && serves == Serves::step_before;
  Lifetime& live = is_late ? touches.of_step_before : touches.of_step;
  live = live.is_empty() ? Lifetime{position, position}
                         : Lifetime{std::min(live.first, position), std::max(live.last, position)};
}

std::vector<Lifetime> LifetimeFinder::find(std::int32_t count) const {
  const Lifetime throughout = {0, std::max(count - 1, 0)};
  std::vector<Lifetime> result;
  result.reserve(touches_.size());
  for (std::size_t b = 0; b < touches_.size(); ++b) {
    const auto& [of_step, of_step_before] = touches_[b];
    if (program_.buffers[b].persistent || program_.buffers[b].apart) {
      result.push_back(throughout);
    } else if (of_step_before.is_empty()) {
      result.push_back(of_step);
    } else {
      result.push_back(of_step_before.last < of_step.first ? Lifetime{of_step.first, of_step_before.last}
                                                           : throughout);
    }
  }
  std::vector<std::int32_t> last(touches_.size(), -1);  // use before it is renewed
  for (const auto& [buffer, position] : uses_) {
    if (position < nth(renewed_at_, buffer)) nth(last, buffer) = std::max(nth(last, buffer), position);
  }
  for (std::size_t b = 0; b < last.size(); ++b)
    if (last[b] >= 0 && renewed_at_[b] != kNever) result[b] = {renewed_at_[b], last[b]};
  return result;
}

namespace {

std::string text_of(const Piece& piece) {
  return piece.is_all() ? "" : fmt::format(" elements {}..{}", piece.first, piece.first + piece.count - 1);
}

}  // namespace

std::string print(const Program& program, const Instruction& instruction) {
  std::string line = fmt::format("{:<14}", name_of(instruction.operation));
  if (instruction.unit >= 0) line += ' ' + nth(program.units, instruction.unit);
  if (instruction.microbatch >= 0) line += fmt::format(" mb={}", instruction.microbatch);
  if (instruction.segment > 0) line += fmt::format(" segment={}", instruction.segment);
  line += text_of(instruction.piece);
  line += fmt::format(" [{}]", name_of(instruction.lane));
  if (instruction.exchange.group >= 0)
    line += fmt::format(" of {}", nth(program.groups, instruction.exchange.group).name);
  if (instruction.exchange.peer >= 0)
    line += fmt::format(" {} {}", instruction.operation == Operation::send ? "to" : "from",
                        instruction.exchange.peer);
  if (instruction.exchange.sent > 0) line += fmt::format(" sends {}", instruction.exchange.sent);
  if (instruction.when == When::saving) line += " when saving";
  line += text_of(instruction.serves);
  if (instruction.effect != Effect::none) line += fmt::format(" {}", name_of(instruction.effect));
  if (instruction.saved_level > 0) line += fmt::format(" saved_level={}", instruction.saved_level);
  if (instruction.flops > 0) line += fmt::format(" {} FLOP", instruction.flops);
  const auto append = [&](const OperandList& operands) {
    for (const Operand& operand : operands) {
      const Buffer& buffer = program.buffer(operand.buffer);
      line += fmt::format(" {}={}:{}#{} {}[{}]", name_of(operand.role), name_of(buffer.tier), *buffer.name,
                          operand.buffer, name_of(operand.type), operand.elements);
      if (operand.offset > 0) line += fmt::format("@{}", operand.offset);
    }
  };
  append(instruction.reads);
  if (!instruction.writes.empty()) line += " ->";
  append(instruction.writes);
  return line;
}

std::string title_of(const Program& program, const Instruction& instruction) {
  std::string title(name_of(instruction.operation));
  if (instruction.unit >= 0) title += ' ' + nth(program.units, instruction.unit);
  if (instruction.microbatch >= 0) title += fmt::format(" mb={}", instruction.microbatch);
  return title;
}

std::string print(const Program& program) {
  const std::vector<Lifetime> live = lifetimes(program);
  std::string text;
  for (const RankGroup& group : program.groups)
    fmt::format_to(std::back_inserter(text), "group {}: {} of {} ranks, {} apart\n", group.name, group.sets,
                   group.ranks, group.stride);
  for (const StateEntry& place : program.state) {
    const std::string_view unit = place.unit < 0 ? "run" : std::string_view(nth(program.units, place.unit));
    fmt::format_to(std::back_inserter(text), "state {} {}{}{} {} #{}\n", unit, name_of(place.part),
                   place.is_whole ? "" : " of shard", text_of(place.piece), name_of(place.type),
                   place.buffer);
  }
  if (program.loss_terms > 0)
    fmt::format_to(std::back_inserter(text), "loss: mean of {} terms\n", program.loss_terms);
  if (program.updates > 1) fmt::format_to(std::back_inserter(text), "updates: {}\n", program.updates);
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    fmt::format_to(std::back_inserter(text), "buffer #{} {}:{} {} {}{}{}{}", b, name_of(buffer.tier),
                   *buffer.name, name_of(buffer.kind), buffer.bytes, buffer.persistent ? " persistent" : "",
                   buffer.carried ? " carried" : "", buffer.renewed ? " renewed" : "",
                   buffer.apart ? " apart" : "");
    if (buffer.offset >= 0) fmt::format_to(std::back_inserter(text), " @{}", buffer.offset);
    fmt::format_to(std::back_inserter(text), " live {}..{}\n", live[b].first, live[b].last);
  }
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    fmt::format_to(std::back_inserter(text), "{:>5} {}\n", i, print(program, program.instructions[i]));
  }
  return text;
}

}  // namespace strata
