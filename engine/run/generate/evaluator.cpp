#include "engine/run/generate/evaluator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/nth.h"
#include "engine/device/loss_calls.h"
#include "engine/model/model.h"

namespace strata {
namespace {

constexpr std::int64_t kShortestWindow = 64;

}  // namespace

double EvaluationResult::perplexity() const {
  return std::exp(mean_loss());
}

double EvaluationResult::bits_per_byte() const {
  return loss_sum / std::numbers::ln2 / static_cast<double>(text_bytes);
}

Evaluator::Evaluator(Device& device, const Model& model, ReadParameters read, EvaluationOptions options)
    : device_(device),
      model_(model),
      options_(std::move(options)),
      tables_(model, options_.sequence),
      stream_(device.make_stream()),
      done_(stream_->make_event()) {
  const std::int64_t longest = model.architecture.max_positions;
  if (options_.sequence > longest)
    throw ConfigError(fmt::format("windows of {} tokens are longer than the model's longest sequence of {}",
                                  options_.sequence, longest));
  for (std::int64_t length = kShortestWindow; length < options_.sequence; length *= 2) waiting_[length];
  for (const std::int64_t length : tables_.lengths()) waiting_[length];
  plan_memory();
  ParameterBudget budget = options_.budget;
  if (budget.device != kUnlimited) budget.device -= layout_.bytes;
  if (budget.device < 0) {
    throw ConfigError(
        fmt::format("{} of device memory are too little: the activations alone take {}; give shorter "
                    "sequences or a smaller batch",
                    format_bytes(options_.budget.device), format_bytes(layout_.bytes)));
  }
  parameters_ = std::make_unique<UnitParameters>(device, model, options_.precision, std::move(read), budget);
  memory_ = device.allocate(layout_.bytes);
  stream_->copy_to_device(at(layout_.tables), tables_.host().data(), std::ssize(tables_.host()));
}

void Evaluator::plan_memory() {
  Bytes workspace = 0;
  for (const auto& [length, windows] : waiting_) {
    for (const std::int64_t count : {std::int64_t{1}, options_.batch}) {
      for (const Unit& unit : model_.units)
        workspace = std::max(workspace, pass(unit, count, length).workspace_bytes());
    }
  }
  const auto take = [this](Bytes bytes) {
    return std::exchange(layout_.bytes, layout_.bytes + align_up(bytes));
  };
  const std::int64_t tokens = options_.batch * options_.sequence;
  const Bytes activations = tokens * model_.architecture.hidden * size_of(options_.precision);
  layout_.tokens = take(number_bytes(tokens));
  layout_.targets = take(number_bytes(tokens));
  layout_.losses = take(number_bytes(tokens));
  host_ = Arena(layout_.bytes);
  pinned_ = device_.pin(host_.memory());
  layout_.first = take(activations);
  layout_.second = take(activations);
  layout_.workspace = take(workspace);
  layout_.tables = take(std::ssize(tables_.host()));
}

const UnitPass& Evaluator::pass(const Unit& unit, std::int64_t windows, std::int64_t length) {
  const std::pair key(unit.kind, std::pair(windows, length));
  const auto found = passes_.find(key);
  if (found != passes_.end()) return found->second;
  return passes_
      .emplace(key, forward_pass(model_, unit, options_.precision, {.batch = windows, .sequence = length},
                                 tables_.for_length(length).layout))
      .first->second;
}

void Evaluator::add(std::span<const std::int32_t> ids, std::span<const std::uint8_t> trained) {
  ++result_.documents;
  const std::int64_t vocabulary = model_.architecture.vocabulary;
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= vocabulary)
      throw ConfigError(fmt::format(
          "document {} has the token {}, and the model's vocabulary ends at {}: is the tokenizer the model's "
          "own?",
          result_.documents, id, vocabulary - 1));
  }
  const auto window = static_cast<std::size_t>(options_.sequence);
  for (std::size_t first = 0; first + 1 < ids.size(); first += window) {
    const std::size_t count = std::min(window, ids.size() - 1 - first);
    Window made{.tokens = {ids.begin() + static_cast<std::ptrdiff_t>(first),
                           ids.begin() + static_cast<std::ptrdiff_t>(first + count)},
                .targets = {}};
    for (std::size_t i = first + 1; i <= first + count; ++i)
      made.targets.push_back(trained.empty() || trained[i] != 0 ? ids[i] : kNoTarget);
    if (std::ranges::all_of(made.targets, [](std::int32_t id) { return id == kNoTarget; })) continue;
    auto& [length, waiting] = *waiting_.lower_bound(static_cast<std::int64_t>(count));
    waiting.push_back(std::move(made));
    if (std::ssize(waiting) < options_.batch) continue;
    run(waiting, length);
    waiting.clear();
  }
}

/// Behind a window's end stand tokens without a target, which those before them do not see.
void Evaluator::run(std::span<const Window> windows, std::int64_t length) {
  auto* tokens = reinterpret_cast<std::int32_t*>(host_.data() + layout_.tokens);
  auto* targets = reinterpret_cast<std::int32_t*>(host_.data() + layout_.targets);
  for (const Window& window : windows) {
    std::fill(std::ranges::copy(window.tokens, tokens).out, tokens + length, 0);
    std::fill(std::ranges::copy(window.targets, targets).out, targets + length, kNoTarget);
    tokens += length;
    targets += length;
  }
  stream_->copy_to_device(at(layout_.tokens), host_.data(), layout_.losses);
  std::byte *from = at(layout_.first), *to = at(layout_.second);
  for (std::size_t unit = 0; unit < model_.units.size(); ++unit) {
    UnitMemory memory;
    parameters_->acquire(unit, memory);
    memory[Region::input] = from;
    memory[Region::output] = to;
    memory[Region::workspace] = at(layout_.workspace);
    memory[Region::constants] = at(layout_.tables + tables_.for_length(length).offset);
    memory[Region::data_0] = at(layout_.tokens);
    memory[Region::data_1] = at(layout_.targets);
    memory[Region::losses] = at(layout_.losses);
    pass(model_.units[unit], std::ssize(windows), length).run(stream_->kernels(), memory, /*loss_factor=*/1);
    parameters_->release(unit, *stream_);
    std::swap(from, to);
  }
  stream_->copy_to_host(host_.data() + layout_.losses, at(layout_.losses),
                        std::ssize(windows) * length * size_of(DType::fp32));
  stream_->record(*done_);
  await_event(*done_);
  count(windows, length);
}

void Evaluator::count(std::span<const Window> windows, std::int64_t length) {
  const auto* losses = reinterpret_cast<const float*>(host_.data() + layout_.losses);
  for (const Window& window : windows) {
    ++result_.windows;
    for (std::size_t i = 0; i < window.targets.size(); ++i) {
      if (window.targets[i] == kNoTarget) continue;
      result_.loss_sum += losses[i];
      ++result_.tokens;
      if (options_.text_bytes) result_.text_bytes += options_.text_bytes(window.targets[i]);
    }
    losses += length;
  }
}

EvaluationResult Evaluator::result() {
  for (auto& [length, waiting] : waiting_) {
    for (const Window& window : waiting) run({&window, 1}, length);
    waiting.clear();
  }
  return result_;
}

}  // namespace strata
