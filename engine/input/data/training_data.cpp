#include "engine/input/data/training_data.h"

#include <algorithm>

#include "base/dropout.h"
#include "base/rotary_row.h"
#include "base/sequence_form.h"
#include "engine/config/choices.h"

namespace strata {
namespace {

nlohmann::json json_of(const std::vector<SourceState>& states) {
  const SamplerState& first = states.front().sampler;
  nlohmann::json json = {{"seed", first.seed}};
  // Checkpoints from before there was a choice do not have it.
  if (!first.shuffled) json["shuffled"] = false;
  const auto add = [](nlohmann::json& to, const SamplerState& state) {
    to["sequences"] = state.sequences;
    to["epoch"] = state.epoch;
    to["position"] = state.position;
  };
  if (states.size() == 1) {
    add(json, first);
    return json;
  }
  json["sources"] = nlohmann::json::array();
  for (const auto& [share, sampler] : states)
    add(json["sources"].emplace_back(nlohmann::json{{"share", share}}), sampler);
  return json;
}

/// What a model reads of text.
struct TextArrays {
  using Array = std::span<std::int32_t>;

  TextArrays(const MicrobatchData& data, const SequenceForm& form)
      : tokens(data.array<std::int32_t>(0)),
        targets(data.array<std::int32_t>(1)),
        at(token_places(form, data.array<std::int32_t>(2))),
        row_keys(data.array<std::int32_t>(form.has_places() ? 3 : 2)) {}

  /// Documents' lengths stand where the rows shall, until make_rotary_rows().
  Array lengths(const SequenceForm& form) const { return form.within_documents ? at.rotary_rows : Array(); }

  /// Without documents each of the `sequences` is a text of its own.
  void make_rotary_rows(const SequenceForm& form, std::int64_t sequences, const ContextPart& part) const {
    const std::int64_t rows = std::ssize(at.rotary_rows) / sequences;
    const Positions positions = part.positions(rows);
    for (std::size_t i = 0; i < at.rotary_rows.size(); ++i) {
      std::int32_t& row = at.rotary_rows[i];
      row = form.within_documents ? rotary_row(at.places[i], row > form.short_length)
                                  : rotary_row(positions.at(static_cast<std::int64_t>(i) % rows),
                                               part.ranks * rows > form.short_length);
    }
  }

  Array tokens, targets;
  TokenPlaces at;
  Array row_keys;
};

void leave_out_repeated(const BatchLoader& loader, std::int64_t microbatch, std::span<std::int32_t> targets) {
  const auto each = static_cast<std::int64_t>(targets.size()) / loader.microbatch();
  std::ranges::fill(targets.subspan(static_cast<std::size_t>(each * loader.held_out_in(microbatch))),
                    kUntrained);
}

}  // namespace

TrainingData training_data(const BatchLoader& loader, const ContextPart& part, const TextForm& text) {
  const SequenceForm form = {.within_documents = loader.is_by_documents(), .short_length = text.short_length};
  TrainingData data = {
      .training =
          [&loader, part, form](std::int64_t step, std::int64_t microbatch, const MicrobatchData& data) {
            const TextArrays arrays(data, form);
            loader.fill(step, microbatch, arrays.tokens, arrays.targets, part, arrays.at.places,
                        arrays.lengths(form));
            arrays.make_rotary_rows(form, loader.microbatch(), part);
            loader.fill_row_keys(step, microbatch, arrays.row_keys, part);
          },
      .validation =
          [&loader, part, form, text](std::int64_t, std::int64_t microbatch, const MicrobatchData& data) {
            const TextArrays arrays(data, form);
            loader.fill_validation(microbatch, arrays.tokens, arrays.targets, part, arrays.at.places,
                                   arrays.lengths(form));
            arrays.make_rotary_rows(form, loader.microbatch(), part);
            std::ranges::fill(arrays.row_keys, kWithoutDropout);
            if (text.once == HeldOutOnce::yes) leave_out_repeated(loader, microbatch, arrays.targets);
          },
      .sampler =
          [&loader](std::int64_t step) {
            nlohmann::json json = json_of(loader.state(step));
            if (loader.packing() != DataPacking::none)
              json["packing"] = loader.packing() == DataPacking::whole ? "whole" : "documents";
            return json;
          }};
  const std::int64_t last = loader.validation_microbatches() - 1;
  const bool repeats =
      text.once == HeldOutOnce::yes && last >= 0 && loader.held_out_in(last) < loader.microbatch();
  if (!loader.are_all_trained())
    data.training_terms = [&loader](std::int64_t step) { return loader.trained_targets(step); };
  if (!loader.are_all_trained() || repeats) {
    data.validation_terms = [terms = loader.trained_validation_targets(text.once)](std::int64_t) {
      return terms;
    };
  }
  return data;
}

}  // namespace strata
