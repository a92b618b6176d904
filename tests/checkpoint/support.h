// Tiny models, and training state as a run holds it: one flat buffer per unit and kind.
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "engine/model/build_model.h"
#include "engine/model/kept_state.h"
#include "engine/model/model.h"
#include "engine/run/checkpoint/hf_folder.h"
#include "engine/run/checkpoint/manifest.h"
#include "tests/base/faulty_file_system.h"
#include "tests/base/overwrite.h"

namespace strata::test {

/// A run that has made `step` steps and read as many samples.
inline Progress progress_at(std::int64_t step) {
  return {.counters = {.step = step}, .loss_scale = {}, .sampler = {{"position", step}}};
}

inline Model tiny_llama(bool tied = false, std::int64_t hidden = 8) {
  return build_model(parse_architecture({{"model_type", "llama"},
                                         {"num_hidden_layers", 1},
                                         {"hidden_size", hidden},
                                         {"num_attention_heads", 2},
                                         {"num_key_value_heads", 1},
                                         {"intermediate_size", 6},
                                         {"vocab_size", 5},
                                         {"tie_word_embeddings", tied}},
                                        "test"));
}

inline Model tiny_granite(double residual_multiplier) {
  return build_model(parse_architecture({{"model_type", "granite"},
                                         {"num_hidden_layers", 1},
                                         {"hidden_size", 8},
                                         {"num_attention_heads", 2},
                                         {"intermediate_size", 6},
                                         {"vocab_size", 5},
                                         {"residual_multiplier", residual_multiplier}},
                                        "test"));
}

inline Model tiny_gpt2() {
  return build_model(parse_architecture({{"model_type", "gpt2"},
                                         {"n_layer", 1},
                                         {"n_embd", 4},
                                         {"n_head", 2},
                                         {"vocab_size", 5},
                                         {"n_positions", 3}},
                                        "test"));
}

/// Every element of every tensor different, beginning at `first`; padding zero.
class State {
 public:
  State(const Model& model, float first) : model_(&model) {
    float value = first;
    for (const Unit& unit : model.units) {
      for (const StateKey key : keys_of(model)) {
        const Flat of = flat_of(key);
        std::vector<float>& flat =
            buffers_[key].emplace_back(static_cast<std::size_t>(unit.elements_of(of)), 0.0F);
        for (const TensorSpec& tensor : unit.tensors) {
          if (tensor.flat != of || !keeps(model, tensor, key)) continue;
          std::iota(flat.begin() + tensor.offset, flat.begin() + tensor.offset + tensor.elements, value);
          value += static_cast<float>(tensor.elements);
        }
      }
    }
  }

  std::span<float> flat(std::size_t unit, StateKey key = StateKey::master) { return buffers_[key][unit]; }
  StateAccess access() {
    return access_in_memory(*model_, [this](std::size_t unit, StateKey key) { return flat(unit, key); });
  }
  /// Where there is state.
  void fill(float value) {
    for (const StateKey key : kStateKeys) {
      for (std::size_t u = 0; u < buffers_[key].size(); ++u) {
        const Unit& unit = model_->units[u];
        const FlatRange kept = kept_part(*model_, unit, key, whole(unit, flat_of(key)));
        std::ranges::fill(slice(std::span(flat(u, key)), kept.first, kept.count), value);
      }
    }
  }
  friend bool operator==(const State& a, const State& b) { return a.buffers_ == b.buffers_; }

 private:
  const Model* model_;
  EnumArray<StateKey, std::vector<std::vector<float>>> buffers_;
};

/// What is exported of a state.
inline ReadParameters read_from(State& state) {
  return [&state](std::size_t unit, FlatRange range, std::span<float> out) {
    const std::span<float> flat = state.flat(unit, weights_in(range.flat));
    std::copy_n(flat.begin() + range.first, range.count, out.begin());
  };
}

/// Without syncs, which tests have no use for; each thread, which may be a rank, has its own.
inline FileSystem& quick() {
  thread_local FaultyFileSystem file_system;
  return file_system;
}

inline std::set<std::string> names_in(const std::filesystem::path& path) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path))
    names.insert(entry.path().filename().string());
  return names;
}

/// A manifest of another version that is otherwise whole.
inline void set_version(const std::filesystem::path& file, int version) {
  nlohmann::json manifest = nlohmann::json::parse(read_file(file));
  manifest["version"] = version;
  manifest.erase("manifest_xxh3");
  manifest["manifest_xxh3"] = hex(hash_text(manifest.dump()));
  overwrite(file, manifest.dump(2) + "\n");
}

/// Flips one bit of a file, in place: emptying a file first would make ext4 flush it.
inline void flip_bit(const std::filesystem::path& path, std::size_t byte, int bit = 0) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(byte));
  const int value = file.get();
  file.seekp(static_cast<std::streamoff>(byte));
  file.put(static_cast<char>(value ^ (1 << bit)));
}

}  // namespace strata::test
