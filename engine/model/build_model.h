// From an architecture to a model.
#pragma once

#include <string>
#include <vector>

#include "base/precision.h"
#include "base/sequence_form.h"
#include "engine/config/adapter_section.h"
#include "engine/config/optimizer_section.h"
#include "engine/model/architectures/architecture.h"

namespace strata {

struct Model;

/// What is done to each unit of an architecture, in this order. Linear layers of blocks round and have
/// adapters; embedding and head do not.
struct ModelChanges {
  Rounding rounding = Rounding::none;    ///< of what linear layers multiply
  AdapterSection adapter = {};           ///< adapter_targets.h; all else is frozen
  SequenceForm form = {};                ///< of the texts: engine/model/graph/within_documents.h
  std::vector<std::string> freeze = {};  ///< patterns of tensors that are not trained: freeze_patterns.h
  OptimizerSection optimizer = {};       ///< how the others are updated: tensor_policies.h
  bool averages = false;                 ///< whether the others have moving averages
};

/// The whole model. A tied head has no matrix of its own: its unit reads and adds to the embedding's first
/// tensor. Throws ConfigError.
Model build_model(const Architecture& architecture, const ModelChanges& changes = {});

}  // namespace strata
