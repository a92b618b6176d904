#include "engine/data/training_data.h"

#include <algorithm>

#include "base/dropout.h"
#include "base/rotary_row.h"

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

  TextArrays(const MicrobatchData& data, bool by_documents, bool by_length)
      : tokens(data.array<std::int32_t>(0)),
        targets(data.array<std::int32_t>(1)),
        places(by_documents ? data.array<std::int32_t>(2) : Array()),
        row_keys(data.array<std::int32_t>(by_documents ? 3 : 2)) {
    if (!by_length) return;
    rotary_rows = places.subspan(places.size() / 2);
    places = places.first(places.size() / 2);
  }

  /// From documents' lengths, which stand where the rows shall.
  void make_rotary_rows(std::int64_t short_document) const {
    for (std::size_t i = 0; i < rotary_rows.size(); ++i)
      rotary_rows[i] = rotary_row(places[i], rotary_rows[i] > short_document);
  }

  Array tokens, targets, places, row_keys;
  Array rotary_rows = {};
};

void leave_out_repeated(const BatchLoader& loader, std::int64_t microbatch, std::span<std::int32_t> targets) {
  const auto each = static_cast<std::int64_t>(targets.size()) / loader.microbatch();
  std::ranges::fill(targets.subspan(static_cast<std::size_t>(each * loader.held_out_in(microbatch))),
                    kUntrained);
}

}  // namespace

TrainingData training_data(const BatchLoader& loader, const ContextPart& part, const TextForm& form) {
  TrainingData data = {
      .training =
          [&loader, part, form](std::int64_t step, std::int64_t microbatch, const MicrobatchData& data) {
            const TextArrays arrays(data, loader.is_by_documents(), form.short_document > 0);
            loader.fill(step, microbatch, arrays.tokens, arrays.targets, part, arrays.places,
                        arrays.rotary_rows);
            arrays.make_rotary_rows(form.short_document);
            loader.fill_row_keys(step, microbatch, arrays.row_keys, part);
          },
      .validation =
          [&loader, part, form](std::int64_t, std::int64_t microbatch, const MicrobatchData& data) {
            const TextArrays arrays(data, loader.is_by_documents(), form.short_document > 0);
            loader.fill_validation(microbatch, arrays.tokens, arrays.targets, part, arrays.places,
                                   arrays.rotary_rows);
            arrays.make_rotary_rows(form.short_document);
            std::ranges::fill(arrays.row_keys, kWithoutDropout);
            if (form.once == HeldOutOnce::yes) leave_out_repeated(loader, microbatch, arrays.targets);
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
      form.once == HeldOutOnce::yes && last >= 0 && loader.held_out_in(last) < loader.microbatch();
  if (!loader.are_all_trained())
    data.training_terms = [&loader](std::int64_t step) { return loader.trained_targets(step); };
  if (!loader.are_all_trained() || repeats) {
    data.validation_terms = [terms = loader.trained_validation_targets(form.once)](std::int64_t) {
      return terms;
    };
  }
  return data;
}

}  // namespace strata
