#include "engine/model/split_context.h"

#include <utility>

#include "base/error.h"
#include "engine/graph/ring.h"

namespace strata {

ContextPart context_part(const RunConfig& config, std::int64_t rank) {
  const RunConfig::ParallelSection& parallel = config.parallel;
  return {parallel.context, rank / (parallel.pipeline * parallel.tensor) % parallel.context};
}

Model split_context(Model model, const ContextPart& part) {
  if (part.ranks == 1) return model;
  if (model.architecture.balance_coefficient != 0)
    throw ConfigError(
        "the auxiliary loss of routing is made of whole sequences, and ranks that share them have parts: set "
        "the model's router_aux_loss_coef to 0, or leave parallel.context out");
  model.computes = make_unit_computes();
  model.context = part;
  for (DerivedGraph& passes : model.passes) passes = with_rings(passes, part.ranks);
  return model;
}

}  // namespace strata
