#include "engine/run/execute/state_saver.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/system_error.h"
#include "engine/config/choices.h"
#include "engine/config/run_config.h"
#include "engine/model/kept_state.h"
#include "engine/model/model.h"

namespace strata {
namespace {

Role role_of(StateKey key) {
  if (const std::optional<Moment> moment = moment_of(key)) return role_of(*moment);
  if (key == StateKey::factors) return Role::factors;
  return key == StateKey::frozen ? Role::frozen : Role::master;
}

/// As a step saves them: those whose updates belong to the next round come last.
SaveOrder units_in_order(const Program& program, const Model& model,
                         const std::function<FlatRange(std::size_t, Flat)>& saved) {
  SaveOrder units;
  const std::vector<StateKey> keys = saved_keys_of(model);
  for (const Serves serves : {Serves::step, Serves::step_before}) {
    for (const Instruction& instruction : program.instructions) {
      if (instruction.operation != Operation::save || instruction.serves != serves) continue;
      const auto unit = static_cast<std::size_t>(instruction.unit);
      for (const StateKey key : keys) {
        const bool is_more_of_it = !units[key].empty() && units[key].back().unit == unit;
        if (instruction.find(role_of(key)) < 0 || is_more_of_it) continue;
        units[key].push_back({unit, kept_part(model, model.units[unit], key, saved(unit, flat_of(key)))});
      }
    }
  }
  return units;
}

}  // namespace

nlohmann::json schedule_json(const RunConfig& config) {
  const ScheduleSection& schedule = config.schedule;
  nlohmann::json json = {{"type", word_of(schedule.type)},
                         {"lr", config.optimizer.learning_rate},
                         {"warmup", schedule.warmup},
                         {"minimum_ratio", schedule.minimum_ratio},
                         {"steps", config.train.steps}};
  switch (schedule.type) {
    case ScheduleType::constant:
    case ScheduleType::linear:
    case ScheduleType::cosine:
      break;
    case ScheduleType::polynomial:
      json["power"] = schedule.power;
      break;
    case ScheduleType::cosine_restarts:
      json["cycles"] = schedule.cycles;
      break;
    case ScheduleType::wsd:
      json["decay_ratio"] = schedule.decay_ratio;
      json["shape"] = word_of(schedule.shape);
      break;
    case ScheduleType::inverse_sqrt:
      json["timescale"] = timescale_of(schedule);
      break;
    case ScheduleType::piecewise:
      json["points"] = nlohmann::json::array();
      for (const auto& [step, factor] : schedule.points) json["points"].push_back({step, factor});
      break;
    case ScheduleType::plateau:
      json["factor"] = schedule.factor;
      json["patience"] = schedule.patience;
      json["threshold"] = schedule.threshold;
      json["cooldown"] = schedule.cooldown;
      break;
  }
  return json;
}

ChosenOnce chosen_once(const RunConfig& config, const Precision& precision,
                       const std::vector<std::string>& layout) {
  return {.precision = precision,
          .layout = layout,
          .ranks = config.ranks(),
          .schedule = schedule_json(config),
          .data = data_settings(config)};
}

Progress progress_of(const StepRecord& record, const SamplerPosition& sampler, const ChosenOnce& chosen) {
  return {.counters = record.counters,
          .loss_scale = record.loss_scale,
          .sampler = sampler(record.counters.step),
          .precision = chosen.precision,
          .layout = chosen.layout,
          .layout_ranks = chosen.layout.empty() ? 0 : chosen.ranks,
          .schedule = chosen.schedule,
          .data = chosen.data};
}

StateSaver::StateSaver(Setup setup)
    : setup_(std::move(setup)),
      units_(units_in_order(*setup_.program, *setup_.model, setup_.saved)),
      copy_(std::move(setup_.stream), setup_.watchdog_seconds),
      piece_(kLargestRead) {}

template <typename Action>
void StateSaver::try_to(const Action& action) {
  try {
    action();
  } catch (const IoError& error) {
    const auto* of_system = dynamic_cast<const SystemError*>(&error);
    if (of_system != nullptr && of_system->lacks_space()) {
      lack_of_space_ = error.what();
    } else if (setup_.on_failure) {
      has_failed_ = true;
      setup_.on_failure(error.what());
    } else {
      throw;
    }
  }
}

void StateSaver::add(std::int64_t step, std::size_t unit, const Piece& piece, StateKey key,
                     const StoredValues& stored) {
  if (has_failed_ || !lack_of_space_.empty()) return;
  if (!checkpoint_) try_to([&] { checkpoint_ = setup_.store->begin(*setup_.model, step, units_); });
  if (!checkpoint_) return;
  const Flat flat = flat_of(key);
  FlatRange held = setup_.held(unit, flat);
  if (!piece.is_all()) held = {held.first + piece.first, piece.count, flat};
  held = kept_part(*setup_.model, setup_.model->units[unit], key, held);
  const FlatRange saved = setup_.saved(unit, flat);
  const std::int64_t begin = held.first;
  const std::int64_t first = std::clamp(begin, saved.first, saved.end());
  const FlatRange range = {first, std::clamp(held.end(), saved.first, saved.end()) - first, flat};
  checkpoint_->add({unit, range}, key, [&](std::int64_t from, std::int64_t count) {
    return stored.read(range.first - begin + from, count, piece_);
  });
}

void StateSaver::finish() {
  if (has_failed_) return;
  if (lack_of_space_.empty()) {
    const Progress progress = progress_of(record_, setup_.sampler, setup_.chosen);
    try_to([&] { setup_.store->finish(std::move(checkpoint_), progress); });
  }
  if (has_failed_) return;
  const std::string lack_of_space = std::exchange(lack_of_space_, {});
  if (lack_of_space.empty()) {
    setup_.on_saved(record_.counters.step);
  } else {
    setup_.on_lack_of_space(lack_of_space);
  }
}

}  // namespace strata
