// What a run has read, said before its first step. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/input/data/documents_read.h"

namespace strata {

/// Counts what data.path or data.sources names, with what of it is held out.
struct DataFacts {
  std::int64_t files = 0;
  DocumentsRead read = {};                     ///< of texts; none of files of token ids
  std::optional<std::int64_t> documents = {};  ///< nothing: the files do not say where they begin
  std::int64_t tokens = 0, trained_tokens = 0;
  std::int64_t sequences_per_epoch = 0;  ///< to train on
  std::int64_t held_out_sequences = 0;
  std::int64_t steps = 0;  ///< of the run
  double epochs = 0;       ///< that these are

  /// "2 files: 3 texts, 1,200 tokens, all trained on; 40 sequences an epoch, 2 held out; 5 steps = 0.5
  /// epochs"
  std::string describe() const;
  std::vector<std::string> warnings() const;
};

/// Keys as documented in docs/reference/data.md.
nlohmann::json data_json(const DataFacts& facts);

}  // namespace strata
