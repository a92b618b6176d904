// Proves a rule's declaration of axes on a node: cuts its operands as declared, runs each part on the
// reference kernels, puts together what they wrote and compares it with the whole run.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/model/graph/legality.h"

namespace strata::test {

/// A whole operand's elements, row by row; empty if it is not given. int32 lies in the same bits.
struct OperandValues {
  std::int64_t rows = 0, columns = 0;
  DType dtype = DType::fp32;
  std::vector<float> elements;
};

class SplitProof {
 public:
  /// What is found wrong about the node's declaration; empty: nothing. `rule` stands in for the node's own.
  std::vector<std::string> complaints(const Operator& rule, const Node& node, const UnitGraph& graph,
                                      const std::vector<OperandValues>& values, const MicrobatchShape& shape);

  /// "linear: …", by what was cut or found linear: "n", "k", "+".
  const std::map<std::string, std::set<std::string>>& proven() const { return proven_; }

 private:
  std::map<std::string, std::set<std::string>> proven_;
};

/// What the rule makes of the operands' values, in memory of its own.
std::vector<OperandValues> run_alone(const Operator& rule, std::vector<OperandValues> values,
                                     const MicrobatchShape& shape);

}  // namespace strata::test
