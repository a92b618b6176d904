#include "engine/tools/report/tensorboard.h"

#include <fmt/format.h>

#include <vector>

#include "base/error.h"
#include "engine/input/text/utf8.h"
#include "engine/model/model.h"
#include "engine/tools/report/figures.h"
#include "engine/tools/report/live_block.h"

namespace strata {
namespace {

EventFile open_file(const std::string& folder) {
  try {
    return EventFile(folder);
  } catch (const IoError& error) {
    throw ConfigError(fmt::format("report.tensorboard: {}", error.what()));
  }
}

Scalar scalar(std::string tag, double value) {
  return {std::move(tag), static_cast<float>(value)};
}

/// Each number of a line of report.metrics but the step.
std::vector<Scalar> scalars_of(const nlohmann::json& line) {
  std::vector<Scalar> scalars;
  for (const auto& [key, value] : line.items()) {
    if (key == "step" || value.is_null()) continue;
    const double number = value.is_boolean() ? (value.get<bool>() ? 1 : 0) : value.get<double>();
    scalars.push_back(scalar("train/" + key, number));
  }
  return scalars;
}

/// A block of Markdown in which nothing has a meaning: each line is indented. Valid UTF-8, whatever the text
/// is.
std::string as_preformatted(const std::string& text) {
  std::string buffer, block = "    ";
  for (const char c : text::make_valid(text, buffer)) {
    const bool ends_line = c == '\n' || c == '\r';
    block += ends_line ? '\n' : c;
    if (ends_line) block += "    ";
  }
  return block;
}

}  // namespace

StepCosts step_costs(const Plan& plan, std::size_t model) {
  const ModelPlan& own = plan.models[model].value();
  StepCosts costs{.tokens = static_cast<double>(own.training.program.loss_terms),
                  .model_flops = own.flops.model,
                  .traffic = own.training.step_traffic};
  for (const Tier tier : kTiers)
    costs.peak_bytes[tier] = plan.merged ? own.training.use[tier].live_bytes : plan.arena_bytes(tier);
  return costs;
}

TensorBoardLog::TensorBoardLog(const std::string& folder, ProductRate& rate, std::function<StepCosts()> costs)
    : file_(open_file(folder)), rate_(rate), costs_(std::move(costs)) {}

/// A full disk must not end a run that could go on, but it must not pass unseen either.
template <typename Write>
void TensorBoardLog::try_to(const Write& write) {
  if (failed_) return;
  try {
    write();
  } catch (const IoError& error) {
    failed_ = true;
    say_above_blocks(fmt::format("warning: report.tensorboard: {}; the curves end here\n", error.what()));
  }
}

/// What older files say of later steps is of a process that was ended before it saved them. A run that begins
/// anew shares no step with the one before it.
void TensorBoardLog::begin(std::int64_t finished_steps) {
  if (has_begun_) return;
  has_begun_ = true;
  file_.start(finished_steps == 0 ? 0 : finished_steps + 1);
}

void TensorBoardLog::on_step(const StepReport& report) {
  std::vector<Scalar> scalars = scalars_of(step_json(report));
  const StepCosts costs = costs_();
  step_time_.add(report);
  if (report.seconds > 0) {
    scalars.push_back(scalar("train/tokens_per_second", costs.tokens / report.seconds));
    scalars.push_back(scalar("train/mfu", rate_.share(costs.model_flops, step_time_.seconds())));
  }
  for (const Tier tier : kTiers) {
    const Bytes bytes = costs.peak_bytes[tier];
    if (bytes > 0)
      scalars.push_back(
          scalar(fmt::format("memory/{}_peak_bytes", name_of(tier)), static_cast<double>(bytes)));
  }
  for (const Link link : kLinks) {
    if (costs.traffic[link] > 0)
      scalars.push_back(
          scalar(fmt::format("traffic/{}_bytes", name_of(link)), static_cast<double>(costs.traffic[link])));
  }
  has_trained_ = true;
  try_to([&] {
    begin(report.step);
    file_.add(report.step + 1, scalars);
  });
}

/// A process that resumes validates and takes samples first, at a step that the process before may have told
/// of.
template <typename Value>
void TensorBoardLog::add_once(std::int64_t step, const std::vector<Value>& values) {
  try_to([&] {
    const bool may_be_known = !has_trained_ && step > 0;
    begin(step);
    if (may_be_known && file_.is_in_older_files(values.front().tag, step)) return;
    file_.add(step, values);
  });
}

void TensorBoardLog::on_validation(const ValidationPoint& point) {
  add_once(point.step, scalars_of(validation_json(point)));
}

void TensorBoardLog::on_samples(const SamplePoint& point) {
  std::vector<TextNote> notes;
  for (const Sample& sample : point.samples)
    notes.push_back(
        {fmt::format("samples/{}", notes.size() + 1), as_preformatted(sample.prompt + sample.text)});
  add_once(point.step, notes);
}

}  // namespace strata
