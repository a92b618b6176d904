#include "engine/model/split_context.h"

#include <utility>

#include "base/context_part.h"
#include "engine/config/run_config.h"
#include "engine/model/graph/share_sequences.h"
#include "engine/model/model.h"

namespace strata {

ContextPart context_part(const RunConfig& config, std::int64_t rank) {
  const ParallelSection& parallel = config.parallel;
  return {parallel.context, rank / (parallel.pipeline * parallel.tensor) % parallel.context};
}

Model split_context(Model model, const ContextPart& part) {
  if (part.ranks == 1) return model;
  model.context = part;
  for (DerivedGraph& passes : model.passes) passes = share_sequences(passes, part.ranks);
  if (model.sampling) model.sampling = std::make_shared<const Model>(split_context(*model.sampling, part));
  return model;
}

}  // namespace strata
