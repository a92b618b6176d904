// What the engine must know of an operator, in one place: how it touches its operands, what it costs, which
// of them may be one place, its derivative, and the kernels that it calls. Passes over graphs know operators
// by these questions only, never by their names: what stands in a rule's place, the rule makes by itself.
// Rules are values without state, shared by all units; usable from any thread.
#pragma once

#include <boost/container/small_vector.hpp>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/nth.h"
#include "base/precision.h"
#include "engine/device/kernels.h"
#include "engine/model/graph/operator_forms.h"
#include "engine/model/graph/tensor.h"

namespace strata {

struct ColumnSharing;
class Derivation;
struct LowRankUpdate;
class Operator;
class SequenceSharing;
struct UnitGraph;

/// That an operator has.
constexpr std::size_t kMostOperands = 12;

/// Operands, a bit for each, the first in the lowest.
using OperandSet = std::uint32_t;
static_assert(kMostOperands <= 32);

enum class Touch : std::uint8_t { reads, writes, updates };

/// One for each operand of a rule, in place: passes over graphs ask every node for them.
using Touches = boost::container::small_vector<Touch, 12>;

/// An operator at work on tensors of its unit.
struct Node {
  std::shared_ptr<const Operator> rule;
  std::vector<TensorView> operands;  ///< in the rule's order

  const TensorView& operator[](int operand) const { return nth(operands, operand); }
  TensorView& operator[](int operand) { return nth(operands, operand); }
};

/// A node's operands in memory; or their sizes alone, with null for data.
class Operands {
 public:
  Operands(std::span<const Matrix> matrices, MicrobatchShape shape, float loss_factor = 1,
           OperandSet overwritten = 0, std::uint32_t unit = 0)
      : matrices_(matrices),
        shape_(shape),
        loss_factor_(loss_factor),
        overwritten_(overwritten),
        unit_(unit) {}

  /// Empty if the operand is not given.
  const Matrix& operator[](int operand) const { return nth(matrices_, operand); }
  /// What an int32 tensor holds.
  std::span<const std::int32_t> indices(int operand) const {
    const Matrix& matrix = (*this)[operand];
    return span_of(static_cast<const std::int32_t*>(matrix.data), matrix.elements());
  }
  std::span<std::int32_t> writable_indices(int operand) const {
    const Matrix& matrix = (*this)[operand];
    return span_of(static_cast<std::int32_t*>(matrix.data), matrix.elements());
  }
  const MicrobatchShape& shape() const { return shape_; }
  float loss_factor() const { return loss_factor_; }  ///< what a token's loss counts in the step's mean
  /// Whether this is the first value of an operand that is otherwise added to.
  bool overwrites(int operand) const { return (overwritten_ >> operand & 1U) != 0; }
  std::uint32_t unit() const { return unit_; }  ///< number in its model of the unit that runs

 private:
  std::span<const Matrix> matrices_;
  MicrobatchShape shape_;
  float loss_factor_;
  OperandSet overwritten_;
  std::uint32_t unit_;
};

/// One of several equal parts of an axis; the last may be shorter.
struct AxisPart {
  std::int64_t part = 0, parts = 1;
  std::int64_t first = 0, count = 0;  ///< elements of the whole axis
};

/// What is written may take the place of what is read, if both have one shape and nobody needs that later.
struct InPlace {
  int written, read;
};

class Operator {
 public:
  virtual ~Operator() = default;

  // The loop that it is.

  virtual std::string_view name() const = 0;
  /// One for each operand.
  virtual Touches touches() const = 0;
  /// The axes of its operands and how it may be split on them, as legality.h reads it. Sizes that a split
  /// changes are those of operands, never the rule's.
  virtual std::string_view axes() const = 0;
  /// The rule for a part of the loop over a variable of axes(), if it has to know which part that is;
  /// otherwise nothing.
  virtual std::shared_ptr<const Operator> of_part(std::string_view /*variable*/, const AxisPart&) const {
    return nullptr;
  }
  virtual void run(Kernels& kernels, const Operands& operands) const = 0;
  virtual double flops(const Operands&) const { return 0; }

  // Its memory, and passes in which it runs again.

  virtual std::vector<InPlace> in_place() const { return {}; }
  /// It can write this operand, which it updates, as if zeros were there, and without reading it.
  virtual bool can_overwrite(int /*operand*/) const { return false; }
  /// Costs little beside products of matrices: what it writes is made again in a backward pass, not saved.
  virtual bool is_cheap() const { return false; }
  /// Its rows depend on the same rows of its operands only.
  virtual bool goes_by_rows() const { return false; }
  /// It waits for what ranks exchange, and the nodes before it need not: it is the first of its segment.
  virtual bool begins_segment() const { return false; }
  /// The node that makes what `node` has made, if all else that it wrote is there.
  virtual Node again(const Node& node) const { return node; }
  /// Whether again() makes the bits that `node` has made. If not, backward passes read what it makes wherever
  /// they read that tensor.
  virtual bool again_has_its_bits() const { return true; }

  // Its derivative.

  /// The operand in whose gradient's place the gradient of what is written may lie: `written` has the same
  /// columns.
  virtual std::vector<InPlace> shares_gradient() const { return {}; }
  /// Appends the nodes that make gradients of what it reads from those of what it writes.
  virtual void differentiate(const Node& node, Derivation& derivation) const = 0;

  // What it says of itself (operator_forms.h).

  virtual std::optional<ProductForm> product_form() const { return {}; }
  virtual WeightForm weight_form() const { return {}; }
  virtual FusionForm fusion_form() const { return {}; }
  virtual std::optional<LossForm> loss_form() const { return {}; }
  virtual std::optional<ExchangeForm> exchange_form() const { return {}; }
  virtual TokenOperands token_operands(const Node& /*node*/) const { return {}; }
  /// It chooses by the values of this operand, such as experts for a token. What makes them is neither
  /// rounded nor adapted.
  virtual bool decides_by(int /*operand*/) const { return false; }

  // What it makes of itself in the hands of a pass. It says no by making nothing.

  /// The rule that rounds what it multiplies. A rule with a product_form() has one.
  virtual std::shared_ptr<const Operator> rounded(Rounding) const { return nullptr; }
  /// Appends an adapter's nodes behind its own (low_rank_update.h). REQUIRES: it has a product_form().
  virtual void add_low_rank(const Node& /*node*/, const LowRankUpdate&, UnitGraph&) const {
    throw std::logic_error(std::string(name()) + " has no adapters");
  }
  /// `node` and its neighbour `next` as one node, which makes what both make that somebody reads.
  virtual std::optional<Node> fuse_next(const UnitGraph&, const Node& /*node*/, const Node& /*next*/) const {
    return {};
  }
  /// `node`, of a backward pass, with what `remade` makes again, if its kernel has that on its way.
  virtual std::optional<Node> with_remade(const Node& /*node*/, const Node& /*remade*/) const { return {}; }
  /// Appends what stands in the node's place if ranks share its columns (share_columns.h). False: the node
  /// stays.
  virtual bool share_columns(const Node& /*node*/, const ColumnSharing&, UnitGraph&) const { return false; }
  /// Appends what stands in the node's place if ranks share sequences (share_sequences.h). False: the node
  /// stays.
  virtual bool share_sequences(const Node& /*node*/, SequenceSharing&) const { return false; }

  // Generation, which goes through a sequence whole once, and then by one token after another.

  /// Operands whose rows later tokens of a sequence read: a cache keeps them.
  virtual std::vector<int> cached_operands() const { return {}; }
  /// Runs for the newest tokens, whose rows it adds to the cache. False: run() is right for them.
  virtual bool decode(Kernels&, const Operands&, const DecodeStep&) const { return false; }
};

/// A rule that stands in backward passes only.
class GradientOperator : public Operator {
 public:
  void differentiate(const Node&, Derivation&) const final {
    throw std::logic_error(std::string(name()) + " has no derivative");
  }
};

}  // namespace strata
