#include "engine/run/execute/samples.h"

#include <algorithm>
#include <cassert>

#include "base/dropout.h"
#include "base/nth.h"
#include "base/rotary_row.h"
#include "base/storage_type.h"
#include "engine/model/graph/logits_graph.h"
#include "engine/model/graph/row_keys.h"
#include "engine/model/sampling_model.h"

namespace strata {

void Samples::begin() {
  sequences_.clear();
  for (const SamplePrompts::Prompt& prompt : setup_.prompts.prompts) sequences_.push_back({prompt.ids});
  is_stopped_ = false;
}

std::int64_t Samples::prompt_of(std::int64_t sequence) const {
  const std::int64_t prompt = sequence * setup_.data_ranks + setup_.data_rank;
  return prompt < std::ssize(sequences_) ? prompt : kNoPrompt;
}

std::optional<std::int64_t> Samples::row_of(std::int64_t position) const {
  const Positions positions = setup_.context.positions(setup_.shape.of_rank.sequence);
  const std::int64_t row = positions.below(position);
  if (row == positions.rows || positions.at(row) != position) return std::nullopt;
  return row;
}

void Samples::fill(const MicrobatchData& data) const {
  const auto tokens = data.array<std::int32_t>(0);
  const auto last_rows = data.array<std::int32_t>(kLastRowsArray);
  const SequenceForm& form = setup_.form;
  const auto [places, rotary_rows] = token_places(form, data.array<std::int32_t>(kPlacesArray));
  const auto [sequences, length, unused] = setup_.shape.of_rank;
  const Positions positions = setup_.context.positions(length);
  std::ranges::fill(tokens, 0);
  std::ranges::fill(last_rows, kNoPrompt);
  std::ranges::fill(data.array<std::int32_t>(row_keys_array(form.has_places())), kWithoutDropout);
  for (std::int64_t s = 0; s < sequences; ++s) {
    const std::int64_t prompt = prompt_of(s);
    const std::span<const std::int32_t> ids =
        prompt == kNoPrompt ? std::span<const std::int32_t>() : nth(sequences_, prompt).ids;
    for (std::int64_t row = 0; row < length; ++row) {
      const std::int64_t at = s * length + row;
      const std::int64_t position = positions.at(row);
      if (!tokens.empty() && position < std::ssize(ids)) nth(tokens, at) = nth(ids, position);
      if (!places.empty()) nth(places, at) = static_cast<std::int32_t>(position);
      if (!rotary_rows.empty())
        nth(rotary_rows, at) = rotary_row(position, std::ssize(ids) > form.short_length);
    }
    if (last_rows.empty() || ids.empty()) continue;
    if (const auto row = row_of(std::ssize(ids) - 1))
      nth(last_rows, s) = static_cast<std::int32_t>(s * length + *row);
  }
}

void Samples::join(const Matrix& logits, std::span<float> all) const {
  std::ranges::fill(all, 0.0F);
  const std::int64_t first = setup_.tensor_rank * logits.columns;
  const std::int64_t count = std::min(logits.columns, setup_.vocabulary - first);
  const float cap = setup_.soft_cap;
  with_storage_type(logits.dtype, [&]<typename T>(T) {
    for (std::int64_t row = 0; row < logits.rows; ++row) {
      const T* const from = logits.row<const T>(row);
      std::transform(from, from + count, all.begin() + row * setup_.vocabulary + first,
                     [cap](T value) { return capped(static_cast<float>(value), cap); });
    }
  });
}

void Samples::choose(std::span<const float> logits, std::span<double> next) const {
  std::ranges::fill(next, 0.0);
  next.back() = setup_.stop_requested && setup_.stop_requested() ? 1.0 : 0.0;
  if (logits.empty() || setup_.tensor_rank > 0) return;
  for (std::int64_t s = 0; s < setup_.shape.of_rank.batch; ++s) {
    const std::int64_t prompt = prompt_of(s);
    if (prompt == kNoPrompt) continue;
    const Sequence& sequence = nth(sequences_, prompt);
    if (sequence.is_done || !row_of(std::ssize(sequence.ids) - 1)) continue;
    nth(next, prompt) = setup_.prompts.choose(slice(logits, s * setup_.vocabulary, setup_.vocabulary),
                                              static_cast<std::size_t>(prompt), sequence.ids.size());
  }
}

void Samples::take(std::span<const double> next) {
  assert(next.size() == sequences_.size() + 1);
  is_stopped_ = next.back() > 0;
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    Sequence& sequence = sequences_[i];
    if (sequence.is_done) continue;
    sequence.ids.push_back(static_cast<std::int32_t>(next[i]));
    sequence.is_done = setup_.prompts.stops.contains(sequence.ids.back()) ||
                       std::ssize(sequence.ids) >= setup_.shape.longest;
  }
}

std::int64_t Samples::ended() const {
  return std::ranges::count(sequences_, true, &Sequence::is_done);
}

std::vector<Sample> Samples::result() const {
  std::vector<Sample> samples;
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    const SamplePrompts::Prompt& prompt = setup_.prompts.prompts[i];
    const std::span<const std::int32_t> ids = sequences_[i].ids;
    const std::span<const std::int32_t> behind = ids.subspan(prompt.ids.size());
    samples.push_back({prompt.text, setup_.prompts.decode(behind), {behind.begin(), behind.end()}});
  }
  return samples;
}

}  // namespace strata
