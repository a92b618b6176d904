// What a layout costs before it is planned, from the sizes of its passes and its state: a bound on its step,
// and a guess by which layouts are ordered.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "base/bytes.h"
#include "engine/model/model.h"
#include "engine/plan/cost/rates.h"
#include "engine/run/tune/run_layout.h"

namespace strata {

struct RunConfig;

/// Seconds of a step on the rank for which they are most.
struct LayoutCost {
  double passes = 0;     ///< of computing, if nothing is made again
  double bubble = 0;     ///< that it waits at least for other stages
  double exchanges = 0;  ///< within passes, between ranks that share layers
  double rings = 0;      ///< within passes, between ranks that share sequences
  double state = 0;      ///< of sending gradients, and parameters once
  // Guesses by the memory that it needs.
  double gathers = 0;             ///< of sending parameters as often as they are gathered, in place of once
  double again = 0;               ///< of making again what the device has no room to save
  double moved = 0;               ///< of moving what it has no room for even then
  std::int64_t instructions = 0;  ///< about as many have passes of a microbatch on all stages

  /// What no plan of the layout beats: its lanes run side by side.
  double bound() const;
  /// Computing waits for exchanges within layers, and by turns for those of state.
  double guess() const;
};

/// Prices layouts of one run; keeps what layouts have in common.
class LayoutCosts {
 public:
  LayoutCosts(const MachineRates& rates, Architecture architecture)
      : rates_(rates), links_(rates.rank_links()), architecture_(std::move(architecture)) {}

  /// The first rank's; null if ranks cannot share the model so. It is the same for all layouts that share it
  /// alike.
  const Model* model_of(const RunConfig& config);

  /// Nothing if the model cannot be laid out so.
  std::optional<LayoutCost> cost_of(const RunConfig& config);

 private:
  struct UnitCost {
    double passes = 0;   ///< seconds of both passes, if that is saved with which they are shortest
    double forward = 0;  ///< of the forward pass
    double again = 0;    ///< more of both, if nothing is saved
    double exchanges = 0, rings = 0;  ///< of both
    Bytes saved = 0, input = 0;       ///< from forward to backward pass
    std::int64_t instructions = 0;
  };
  const std::vector<UnitCost>& units_of(const RunConfig& config, const Model& model);
  const std::vector<std::int32_t>& cut_of(const RunConfig& config, const Model& model);

  /// Tensor, context and sequence. Exchanges also depend on the pipeline: where ranks of a sequence lie on
  /// nodes.
  using ShareKey = std::tuple<std::int64_t, std::int64_t, bool>;
  static ShareKey share_of(const RunConfig& config);

  MachineRates rates_;
  RankLinks links_;
  Architecture architecture_;
  std::map<ShareKey, std::unique_ptr<Model>> models_;
  std::map<std::tuple<ShareKey, std::int64_t, std::int64_t>, std::vector<UnitCost>> units_;
  std::map<std::tuple<ShareKey, std::int64_t, std::int64_t>, std::vector<std::int32_t>> cuts_;
};

}  // namespace strata
