#include "engine/run/generate/generator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/finite.h"
#include "base/nth.h"
#include "base/storage_type.h"
#include "engine/device/elementwise_calls.h"
#include "engine/model/architectures/rotary.h"
#include "engine/model/graph/logits_graph.h"
#include "engine/model/model.h"

namespace strata {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Tokens that a sequence may come to: the longest prompt's and what follows, within what the model has seen.
std::int64_t capacity_for(const std::vector<TokenIds>& prompts, std::int64_t max_tokens,
                          std::int64_t max_positions) {
  std::int64_t longest = 0;
  for (const TokenIds& prompt : prompts) longest = std::max(longest, std::ssize(prompt));
  return std::min(longest + max_tokens, max_positions);
}

void copy_rows(Kernels& kernels, const Matrix& from, const Matrix& to) {
  kernels.run(Cast{.x = from, .out = to});
}

}  // namespace

Generator::Generator(Device& device, const Model& model, ReadParameters read, std::vector<TokenIds> prompts,
                     GenerationOptions options, std::shared_ptr<UnitParameters> parameters)
    : device_(device),
      model_(model),
      options_(std::move(options)),
      capacity_(capacity_for(prompts, options_.max_tokens, model.architecture.max_positions)),
      cache_(model, options_.precision, std::ssize(prompts), capacity_),
      tables_(model, capacity_),
      newest_tables_(rotary_layout(model, std::ssize(prompts))),
      stream_(device.make_stream()),
      done_(stream_->make_event()) {
  check_prompts(prompts);
  for (TokenIds& prompt : prompts) {
    figures_.prompt_tokens += std::ssize(prompt);
    const std::size_t length = prompt.size();
    sequences_.push_back({.ids = std::move(prompt), .prompt_length = length});
  }
  plan_memory();
  ParameterBudget budget = options_.budget;
  if (budget.device != kUnlimited) budget.device -= layout_.bytes;
  if (budget.device < 0) {
    throw ConfigError(fmt::format(
        "{} of device memory are too little: the cache of keys and values and the activations alone take {}; "
        "give fewer or shorter prompts, or fewer tokens",
        format_bytes(options_.budget.device), format_bytes(layout_.bytes)));
  }
  parameters_ = std::move(parameters);
  if (parameters_ == nullptr || parameters_->device_bytes() > budget.device) {
    parameters_.reset();  // its memory is needed
    parameters_ =
        std::make_shared<UnitParameters>(device, model, options_.precision, std::move(read), budget);
  }
  memory_ = device.allocate(layout_.bytes);
  cache_.put_in(at(layout_.cache));
  stream_->copy_to_device(at(layout_.tables), tables_.host().data(), std::ssize(tables_.host()));
  await_stream();
}

void Generator::check_prompts(const std::vector<TokenIds>& prompts) const {
  if (prompts.empty()) throw ConfigError("there is no prompt");
  const Architecture& architecture = model_.architecture;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const TokenIds& prompt = prompts[i];
    if (prompt.empty()) throw ConfigError(fmt::format("prompt {} has no tokens", i + 1));
    if (std::ssize(prompt) >= architecture.max_positions) {
      throw ConfigError(fmt::format("prompt {} has {} tokens, and the model's longest sequence has {}", i + 1,
                                    prompt.size(), architecture.max_positions));
    }
    for (const std::int32_t id : prompt) {
      if (id >= 0 && id < architecture.vocabulary) continue;
      throw ConfigError(
          fmt::format("prompt {} has the token {}, and the model's vocabulary ends at {}: is the tokenizer "
                      "the model's own?",
                      i + 1, id, architecture.vocabulary - 1));
    }
  }
}

void Generator::plan_memory() {
  const std::int64_t count = std::ssize(sequences_);
  const DType precision = options_.precision;
  Bytes tokens = 0, activations = hidden_bytes(count), workspace = 0;
  const auto plan_length = [&](std::int64_t length) {
    for (const Unit& unit : model_.units) {
      if (&unit != &model_.head())
        workspace = std::max(workspace, prompt_pass(unit, length).workspace_bytes());
    }
  };
  for (const Sequence& sequence : sequences_) {
    plan_length(sequence.length());
    std::int64_t longest = sequence.length();
    // Where the tables change, a sequence goes through the model once more.
    if (const std::int64_t change = tables_.lengths().front(); change < capacity_ && longest <= change) {
      longest = change + 1;
      plan_length(longest);
    }
    tokens += number_bytes(longest);
    activations += hidden_bytes(longest);
  }
  for (const Unit& unit : model_.units) {
    if (&unit == &model_.head() || newest_passes_.contains(unit.kind)) continue;
    const UnitPass& pass =
        newest_passes_
            .emplace(unit.kind,
                     forward_pass(model_, unit, precision, {.batch = 1, .sequence = count}, newest_tables_))
            .first->second;
    workspace = std::max(workspace, pass.workspace_bytes());
  }
  head_ = logits_pass(model_, precision, count);
  workspace = std::max(workspace, head_.pass.workspace_bytes());

  input_.lengths = number_bytes(count);
  input_.tables = input_.lengths + number_bytes(count);
  input_.bytes = input_.tables + newest_tables_.bytes;
  const auto take = [this](Bytes bytes) {
    return std::exchange(layout_.bytes, layout_.bytes + align_up(bytes));
  };
  layout_.cache = take(cache_.bytes());
  layout_.first = take(activations);
  layout_.second = take(activations);
  layout_.workspace = take(workspace);
  layout_.last_rows = take(hidden_bytes(count));
  layout_.logits = take(bytes_of(head_.logits));
  layout_.input = take(std::max(input_.bytes, tokens));
  layout_.tables = take(std::ssize(tables_.host()));
  host_logits_ = align_up(std::max(input_.bytes, tokens));
  host_ = Arena(host_logits_ + align_up(bytes_of(head_.logits)));
  pinned_ = device_.pin(host_.memory());
}

const UnitPass& Generator::prompt_pass(const Unit& unit, std::int64_t length) {
  const std::pair key(unit.kind, length);
  const auto found = prompt_passes_.find(key);
  if (found != prompt_passes_.end()) return found->second;
  return prompt_passes_
      .emplace(key, forward_pass(model_, unit, options_.precision, {.batch = 1, .sequence = length},
                                 tables_.for_length(length).layout))
      .first->second;
}

void Generator::await_stream() {
  stream_->record(*done_);
  await_event(*done_);
}

Bytes Generator::hidden_bytes(std::int64_t rows) const {
  return align_up(rows * model_.architecture.hidden * size_of(options_.precision));
}

Matrix Generator::hidden_rows(std::byte* start, std::int64_t rows) const {
  return {start, options_.precision, rows, model_.architecture.hidden};
}

/// Nothing of it is in the cache, or what is there was rotated by other tables.
bool Generator::needs_whole_pass(const Sequence& sequence) const {
  return !sequence.is_done && (sequence.cached == 0 || &tables_.for_length(sequence.cached) !=
                                                           &tables_.for_length(sequence.length()));
}

void Generator::read_whole(const std::vector<std::size_t>& which) {
  Bytes end = 0;
  for (const std::size_t number : which) {
    const TokenIds& ids = sequences_[number].ids;
    std::ranges::copy(ids, reinterpret_cast<std::int32_t*>(host_.data() + end));
    end += number_bytes(std::ssize(ids));
  }
  stream_->copy_to_device(at(layout_.input), host_.data(), end);
  std::byte *from = at(layout_.first), *to = at(layout_.second);
  for (std::size_t unit = 0; unit + 1 < model_.units.size(); ++unit) {
    UnitMemory memory;
    parameters_->acquire(unit, memory);
    run_unit_on_whole(unit, which, from, to, memory);
    parameters_->release(unit, *stream_);
    std::swap(from, to);
  }
  for (const std::size_t number : which) {
    Sequence& sequence = sequences_[number];
    sequence.cached = sequence.length();
    const Matrix rows = hidden_rows(from, sequence.length());
    copy_rows(stream_->kernels(), rows.row_slice(rows.rows - 1, 1),
              hidden_rows(at(layout_.last_rows), std::ssize(sequences_))
                  .row_slice(static_cast<std::int64_t>(number), 1));
    from += hidden_bytes(rows.rows);
  }
}

void Generator::run_unit_on_whole(std::size_t unit, const std::vector<std::size_t>& which, std::byte* from,
                                  std::byte* to, UnitMemory& memory) {
  Kernels& kernels = stream_->kernels();
  memory[Region::workspace] = at(layout_.workspace);
  memory[Region::input] = from;
  memory[Region::output] = to;
  memory[Region::data_0] = at(layout_.input);
  for (const std::size_t number : which) {
    const std::int64_t length = sequences_[number].length();
    memory[Region::constants] = at(layout_.tables + tables_.for_length(length).offset);
    run_pass(prompt_pass(model_.units[unit], length), kernels, memory,
             [&](const Segment& segment, const Segment::Step& step) {
               const std::vector<int> cached = step.rule->cached_operands();
               if (cached.empty()) return false;
               segment.run_step(step, kernels, memory, /*loss_factor=*/1);
               const std::vector<Matrix> caches = cache_.of_unit(unit);
               const std::int64_t first = static_cast<std::int64_t>(number) * cache_.capacity();
               for (std::size_t i = 0; i < cached.size(); ++i)
                 copy_rows(kernels, operand_in(nth(step.operands, cached[i]), memory),
                           caches[i].row_slice(first, length));
               return true;
             });
    memory[Region::input] += hidden_bytes(length);
    memory[Region::output] += hidden_bytes(length);
    memory[Region::data_0] += number_bytes(length);
  }
}

/// A sequence that has ended reads its last token again, in its place.
void Generator::read_newest() {
  const std::int64_t count = std::ssize(sequences_);
  auto* tokens = reinterpret_cast<std::int32_t*>(host_.data());
  auto* lengths = reinterpret_cast<std::int32_t*>(host_.data() + input_.lengths);
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    Sequence& sequence = sequences_[i];
    if (!sequence.is_done) sequence.cached = sequence.length();
    const auto newest = static_cast<std::size_t>(sequence.cached - 1);
    tokens[i] = sequence.ids[newest];
    lengths[i] = sequence.cached;
    const PositionTables::Set& tables = tables_.for_length(sequence.cached);
    for (std::size_t table = 0; table < tables.layout.offsets.size(); ++table) {
      const auto bytes =
          static_cast<std::size_t>(rotated_columns(model_.rotations[table / 2]) / 2) * sizeof(float);
      std::memcpy(host_.data() + input_.tables + newest_tables_.offsets[table] + i * bytes,
                  tables_.host().data() + tables.offset + tables.layout.offsets[table] + newest * bytes,
                  bytes);
    }
  }
  stream_->copy_to_device(at(layout_.input), host_.data(), input_.bytes);
  std::byte *from = at(layout_.first), *to = at(layout_.second);
  for (std::size_t unit = 0; unit + 1 < model_.units.size(); ++unit) {
    UnitMemory memory;
    parameters_->acquire(unit, memory);
    memory[Region::workspace] = at(layout_.workspace);
    memory[Region::input] = from;
    memory[Region::output] = to;
    memory[Region::data_0] = at(layout_.input);
    memory[Region::constants] = at(layout_.input) + input_.tables;
    run_unit_on_newest(unit, memory);
    parameters_->release(unit, *stream_);
    std::swap(from, to);
  }
  copy_rows(stream_->kernels(), hidden_rows(from, count), hidden_rows(at(layout_.last_rows), count));
}

void Generator::run_unit_on_newest(std::size_t unit, const UnitMemory& memory) {
  run_pass(newest_passes_.at(model_.units[unit].kind), stream_->kernels(), memory,
           [&](const Segment&, const Segment::Step& step) { return run_step_on_newest(unit, step, memory); });
}

/// Where a token's position is more than a row of the tables, the rule has a way of its own.
bool Generator::run_step_on_newest(std::size_t unit, const Segment::Step& step, const UnitMemory& memory) {
  std::array<Matrix, kMostOperands> matrices;
  for (std::size_t i = 0; i < step.operands.size(); ++i) matrices[i] = operand_in(step.operands[i], memory);
  const std::size_t count = sequences_.size();
  const auto lengths_in = [&](const std::byte* input) {
    return std::span(reinterpret_cast<const std::int32_t*>(input + input_.lengths), count);
  };
  const std::vector<Matrix> cached = cache_.of_unit(unit);
  return step.rule->decode(
      stream_->kernels(),
      Operands({matrices.data(), step.operands.size()}, {.batch = std::ssize(sequences_), .sequence = 1}),
      {.lengths = lengths_in(at(layout_.input)),
       .lengths_on_host = lengths_in(host_.data()),
       .cached = cached,
       .capacity = cache_.capacity()});
}

/// The last rows' logits, to the host.
void Generator::run_head() {
  const std::size_t unit = model_.units.size() - 1;
  UnitMemory memory;
  parameters_->acquire(unit, memory);
  memory[Region::workspace] = at(layout_.workspace);
  memory[Region::input] = at(layout_.last_rows);
  memory[Region::logits] = at(layout_.logits);
  run_pass(head_.pass, stream_->kernels(), memory,
           [](const Segment&, const Segment::Step&) { return false; });
  parameters_->release(unit, *stream_);
  stream_->copy_to_host(host_.data() + host_logits_, at(layout_.logits), bytes_of(head_.logits));
  await_stream();
}

void Generator::take_tokens(const OnToken& on_token) {
  Matrix logits = head_.logits;
  logits.data = host_.data() + host_logits_;
  auto row = sized<std::vector<float>>(logits.columns);
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    if (sequences_[i].is_done) continue;
    with_storage_type(logits.dtype, [&]<typename T>(T) {
      std::transform(logits.row<const T>(static_cast<std::int64_t>(i)),
                     logits.row<const T>(static_cast<std::int64_t>(i)) + logits.columns, row.begin(),
                     [this](T value) { return capped(static_cast<float>(value), head_.soft_cap); });
    });
    if (std::ranges::any_of(row, [](float logit) { return std::isnan(logit); })) {
      throw NotFiniteError(
          fmt::format("prompt {}: the logits behind its token {} are no numbers: the model's numbers "
                      "overflow; try --precision fp32, or look at its weights",
                      i + 1, sequences_[i].ids.size()));
    }
    const auto position = static_cast<std::uint64_t>(sequences_[i].ids.size());
    add_token(i, next_token(row, options_.sampling, {.prompt = i, .position = position}));
    if (on_token) on_token(i, sequences_[i].ids.back());
  }
}

void Generator::add_token(std::size_t number, std::int32_t token) {
  Sequence& sequence = sequences_[number];
  sequence.ids.push_back(token);
  ++figures_.new_tokens;
  const auto new_tokens = static_cast<std::int64_t>(sequence.ids.size() - sequence.prompt_length);
  sequence.is_done = true;
  if (options_.stops.contains(token)) {
    sequence.reason = StopReason::stop_token;
  } else if (new_tokens >= options_.max_tokens) {
    sequence.reason = StopReason::max_tokens;
  } else if (sequence.length() >= model_.architecture.max_positions) {
    sequence.reason = StopReason::longest_sequence;
  } else if (options_.is_stopped && options_.is_stopped()) {
    sequence.reason = StopReason::interrupted;
  } else {
    sequence.is_done = false;
  }
}

bool Generator::is_done() const {
  return std::ranges::all_of(sequences_, &Sequence::is_done);
}

std::vector<Continuation> Generator::run(const OnToken& on_token) {
  Clock::time_point begin = Clock::now();
  std::vector<std::size_t> whole;
  for (std::size_t i = 0; i < sequences_.size(); ++i) whole.push_back(i);
  read_whole(whole);
  run_head();
  take_tokens(on_token);
  figures_.prompt_seconds = seconds_since(begin);
  begin = Clock::now();
  while (!is_done()) {
    whole.clear();
    for (std::size_t i = 0; i < sequences_.size(); ++i)
      if (needs_whole_pass(sequences_[i])) whole.push_back(i);
    read_newest();
    if (!whole.empty()) {
      await_stream();  // for what the host's memory held
      read_whole(whole);
    }
    run_head();
    take_tokens(on_token);
  }
  figures_.token_seconds = seconds_since(begin);
  figures_.later_tokens = figures_.new_tokens - std::ssize(sequences_);
  std::vector<Continuation> continuations;
  for (const Sequence& sequence : sequences_) {
    const auto first = sequence.ids.begin() + static_cast<std::ptrdiff_t>(sequence.prompt_length);
    continuations.push_back({.ids = {first, sequence.ids.end()}, .reason = sequence.reason});
  }
  return continuations;
}

}  // namespace strata
