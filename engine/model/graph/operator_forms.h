// What a rule says of itself to passes over graphs and to generation: small values whose defaults say
// nothing. A pass asks a rule by these, and knows no rule by its name. Operands are numbers in the rule's
// order.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/precision.h"
#include "engine/device/activation.h"
#include "engine/device/kernels.h"

namespace strata {

/// In place of an operand's number: the rule has no such operand.
constexpr int kNoOperand = -1;

/// How HF stores a matrix: torch's Linear as [outputs, inputs], GPT-2's Conv1D as [inputs, outputs].
enum class WeightOrder : std::uint8_t { linear, conv1d };

/// out = x · W (+ bias), where W is a parameter or a part of one. Columns of out are those of W and of the
/// bias, so the product may become several products.
struct ProductForm {
  int x = kNoOperand, weight = kNoOperand, bias = kNoOperand, out = kNoOperand;
  WeightOrder order = WeightOrder::linear;
};

/// The parameter that a rule multiplies by.
struct WeightForm {
  int operand = kNoOperand;
  Rounding rounding = Rounding::none;  ///< of the whole parameter, before it is multiplied
};

/// Operands that have something of each token.
struct TokenOperands {
  int places = kNoOperand;  ///< the token's place in its document; not given: its place in its sequence
  int cosine = kNoOperand, sine = kNoOperand;  ///< tables of rotations, with a row for each place
  int row_keys = kNoOperand;                   ///< the token's own number (row_keys.h)
};

/// out = a + b.
struct SumForm {
  int a = kNoOperand, b = kNoOperand, out = kNoOperand;
};

/// out = kind(x), or, if gated, kind(gate) · up for x = [gate | up].
struct ActivationForm {
  Activation kind{};
  bool is_gated = false;
  int x = kNoOperand, out = kNoOperand;
};

/// The rule's kernel can read x + addend in place of x, and then it writes the sum.
struct AddendForm {
  int x = kNoOperand, addend = kNoOperand, sum = kNoOperand;
};

/// What a neighbour's kernel may do in the rule's place, and the rule's kernel in a neighbour's.
struct FusionForm {
  std::optional<SumForm> sum = {};
  std::optional<ActivationForm> activation = {};
  std::optional<AddendForm> addend = {};
};

/// The losses of predicted tokens, made of their logits.
struct LossForm {
  int logits = kNoOperand, losses = kNoOperand;
  float soft_cap = 0;  ///< c > 0: a logit x counts as c · tanh(x / c)
};

enum class ExchangeKind : std::uint8_t {
  all_reduce,      ///< partial sum → whole, in place
  reduce_scatter,  ///< partial sum → split
  all_gather,      ///< split → whole
  ring_shift       ///< each rank's goes to the next, and the last one's to the first
};

/// The ranks that exchange: those that share a layer, or those that share sequences.
enum class SharedBy : std::uint8_t { layer, sequence };

/// The rule is no kernel: ranks exchange the source, and get the destination.
struct ExchangeForm {
  ExchangeKind kind = ExchangeKind::all_reduce;
  SharedBy shared = SharedBy::layer;
  int source = kNoOperand, destination = kNoOperand;  ///< of an all_reduce one operand
};

/// A step of generation: the operands have a row for the newest token of each sequence.
struct DecodeStep {
  std::span<const std::int32_t> lengths;  ///< of the sequences with their newest tokens, on the device
  std::span<const std::int32_t> lengths_on_host;  ///< the same numbers
  /// By cached operand: `capacity` rows of each sequence. Those of tokens before the newest one are there.
  std::span<const Matrix> cached;
  std::int64_t capacity = 0;
};

}  // namespace strata
