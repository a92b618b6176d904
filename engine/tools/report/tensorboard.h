// A run's curves for TensorBoard, as event files. A run that goes on continues them: what the process before
// had told of steps that are done again is dropped by the readers.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/enum_array.h"
#include "engine/plan/place/plan.h"
#include "engine/run/execute/trainer.h"
#include "engine/tools/report/event_file.h"
#include "engine/tools/report/product_rate.h"
#include "engine/tools/report/step_time.h"

namespace strata {

/// What a step of a model takes, by the plan. Of several models its peaks are the most that is there for it
/// at once.
struct StepCosts {
  double tokens = 0, model_flops = 0;
  EnumArray<Tier, Bytes> peak_bytes = {};
  Traffic traffic;  ///< of a step that saves nothing
};
/// REQUIRES: the model takes part in the plan.
StepCosts step_costs(const Plan& plan, std::size_t model = 0);

/// Adds to curves after each step and each validation, and shows samples as texts.
class TensorBoardLog : public TrainListener {
 public:
  /// `costs` is asked after each step, as plans change when other models end. The rate outlives this; a step
  /// that beats it raises it. Throws ConfigError if the
  /// folder cannot be written to.
  TensorBoardLog(const std::string& folder, ProductRate& rate, std::function<StepCosts()> costs);

  void on_step(const StepReport& report) override;
  void on_validation(const ValidationPoint& point) override;
  void on_samples(const SamplePoint& point) override;

 private:
  template <typename Write>
  void try_to(const Write& write);
  void begin(std::int64_t finished_steps);
  template <typename Value>
  void add_once(std::int64_t step, const std::vector<Value>& values);

  EventFile file_;
  ProductRate& rate_;
  SmoothedStepTime step_time_;  ///< by which MFU counts: a single report may come late or early
  std::function<StepCosts()> costs_;
  bool has_begun_ = false, has_trained_ = false, failed_ = false;
};

}  // namespace strata
