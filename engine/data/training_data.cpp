#include "engine/data/training_data.h"

namespace strata {

TrainingData training_data(const BatchLoader& loader, const ContextPart& part) {
  TrainingData data = {
      .training =
          [&loader, part](std::int64_t step, std::int64_t microbatch, const MicrobatchData& data) {
            loader.fill(step, microbatch, data.array<std::int32_t>(0), data.array<std::int32_t>(1), part,
                        data.array<std::int32_t>(2));
          },
      .validation =
          [&loader, part](std::int64_t, std::int64_t microbatch, const MicrobatchData& data) {
            loader.fill_validation(microbatch, data.array<std::int32_t>(0), data.array<std::int32_t>(1), part,
                                   data.array<std::int32_t>(2));
          },
      .sampler =
          [&loader](std::int64_t step) {
            const SamplerState state = loader.state(step);
            nlohmann::json json = {{"seed", state.seed},
                                   {"sequences", state.sequences},
                                   {"epoch", state.epoch},
                                   {"position", state.position}};
            // Checkpoints from before there was a choice do not have it.
            if (!state.shuffled) json["shuffled"] = false;
            if (loader.packing() != DataPacking::none)
              json["packing"] = loader.packing() == DataPacking::whole ? "whole" : "documents";
            return json;
          }};
  if (!loader.are_all_trained()) {
    data.training_terms = [&loader](std::int64_t step) { return loader.trained_targets(step); };
    data.validation_terms = [terms = loader.trained_validation_targets()](std::int64_t) { return terms; };
  }
  return data;
}

}  // namespace strata
