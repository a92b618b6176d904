// A model of a run with its data and the files beside it, ready to be planned; and the machine that trains
// it. Every rank calls these functions in the same order.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/config/run_config.h"
#include "engine/input/data/batch_loader.h"
#include "engine/model/model.h"
#include "engine/run/assembly/run_notes.h"
#include "engine/run/assembly/run_rank.h"
#include "engine/run/checkpoint/companions.h"
#include "engine/run/execute/trainer.h"
#include "engine/run/generate/prompts.h"

namespace strata {

struct PreparedModel {
  RunConfig
      config;  ///< with the steps that train.epochs asks for, and the held-out microbatches that there are
  Model model;
  std::unique_ptr<BatchLoader> data;
  SamplePrompts prompts;
  std::shared_ptr<const Companions> companions;  ///< for its checkpoints; null if it has none
  DataFacts facts;                               ///< of its data
  std::vector<std::string> warnings;
};

/// Loads the model of a run as this rank has it, and opens its data. Texts become token ids on the first
/// rank. REQUIRES: `agreed` has a precision and a layout. Throws ConfigError, and IoError if data cannot be
/// read.
PreparedModel prepare_model(const RunConfig& agreed, const RunRank& rank, const RunNotes& notes);

/// The data of a model as a trainer takes it. REQUIRES: the model outlives the result.
TrainingData data_of(const PreparedModel& model);

}  // namespace strata
