// The data section of a run file: texts and how they become sequences.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/choices.h"

namespace strata {

/// What a record of data may have, by the names that data.fields knows (engine/input/data/record.h).
inline constexpr std::array<std::string_view, 9> kRecordFields = {
    "text", "prompt", "completion", "messages", "tools", "system", "instruction", "input", "output"};

/// An entry of data.sources: of all samples it has its weight's part.
struct DataSource {
  std::vector<std::string> path;
  double weight = 1;
  friend bool operator==(const DataSource&, const DataSource&) = default;
};

struct DataSection {
  std::vector<std::string> path;        ///< globs of text files; or .bin files; or Megatron prefixes
  std::vector<DataSource> sources;      ///< instead of path: several, each with files of its own
  std::vector<std::string> validation;  ///< held-out files; empty: the last validation_fraction of the data
  double validation_fraction = 0.05;
  Tokenizer tokenizer = Tokenizer::bytes;  ///< none: the files hold token ids; automatic: the model's own
  std::string tokenizer_path;              ///< of the model's own; empty: model.path
  std::string cache;                       ///< where ids of texts are kept; empty: the user's cache folder
  DataFormat format = DataFormat::automatic;
  std::map<std::string, std::string> fields;  ///< what records call kRecordFields, where it is another name
  std::int64_t token_bytes = 2;               ///< of an id in a .bin file without a header: 2, 4 or 8
  std::int64_t sequence_length = 512;
  bool shuffle = true;  ///< false: sequences in the order of the files
  DataPacking packing = DataPacking::none;
  BeginToken begin_token = BeginToken::automatic;
  friend bool operator==(const DataSection&, const DataSection&) = default;
};

/// data.sources, or data.path as the only one.
inline std::vector<DataSource> sources_of(const DataSection& data) {
  return data.sources.empty() ? std::vector<DataSource>{{data.path}} : data.sources;
}

}  // namespace strata
