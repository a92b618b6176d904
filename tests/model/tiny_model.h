// A few small models, run unit by unit on the reference kernels in memory that is poisoned with NaN and
// guarded on both sides: what the executor does, without a program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/device/reference/reference_kernels.h"
#include "engine/model/compute.h"
#include "engine/model/model.h"
#include "tests/support/guarded_memory.h"

namespace strata::test {

/// A named architecture of few parameters. The sizes are odd if the family lets them.
struct TinyArchitecture {
  std::string name;
  Architecture architecture;
};
std::vector<TinyArchitecture> tiny_architectures();

/// llama_untied with sizes that up to four ranks share, keys and values by copies.
Architecture tiny_llama_to_split();

struct BackwardResult {
  std::vector<std::vector<float>> gradients;  ///< per unit, like its flat parameter
  std::vector<float> losses;                  ///< per token
};

/// A model with random parameters, tokens and targets. Every run checks the guards of all memory that it
/// used.
class TinyModel {
 public:
  TinyModel(const Architecture& architecture, DType dtype, MicrobatchShape shape);

  const Model& model() const { return model_; }
  std::vector<std::vector<float>>& parameters() { return parameters_; }  ///< per unit
  std::vector<std::int32_t>& tokens() { return tokens_; }

  /// The last block's output, with or without keeping activations.
  std::vector<std::byte> last_activation(bool save);
  /// Losses of each token by forward alone.
  std::vector<float> losses();
  /// Mean of losses().
  double loss();
  /// `passes` backward passes of the mean loss into one gradient; activations kept, or recomputed; each
  /// unit's pass whole, or in two.
  BackwardResult backward(bool save, int passes = 1, bool in_two = false);

 private:
  struct Activations {
    std::vector<GuardedMemory> boundaries;  ///< output of each unit but the head
    std::vector<GuardedMemory> saved;       ///< of each unit; empty if nothing was kept
  };
  std::vector<GuardedMemory> parameter_memory() const;
  Activations forward(std::vector<GuardedMemory>& parameters, bool save);
  void forward_head(std::vector<GuardedMemory>& parameters, Activations& activations, GuardedMemory& losses);
  void backward_once(std::vector<GuardedMemory>& parameters, std::vector<GuardedMemory>& gradients,
                     GuardedMemory& losses, bool save, bool in_two);

  Model model_;
  DType dtype_;
  MicrobatchShape shape_;
  UnitCompute compute_;
  ReferenceKernels kernels_;
  GuardedMemory constants_, tally_;
  std::vector<std::vector<float>> parameters_;
  std::vector<std::int32_t> tokens_, targets_;
};

std::vector<std::int32_t> random_tokens(std::int64_t count, std::int64_t vocabulary, std::uint64_t seed);

}  // namespace strata::test
