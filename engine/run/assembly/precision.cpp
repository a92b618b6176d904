#include "engine/run/assembly/precision.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/precision.h"
#include "base/vector_target.h"
#include "collectives/agreement.h"
#include "collectives/launcher.h"
#include "collectives/same_on_all.h"
#include "engine/config/run_config.h"
#include "engine/model/model.h"
#include "engine/plan/place/refusal.h"
#include "engine/run/assembly/host.h"
#include "engine/run/checkpoint/checkpoint_list.h"
#include "engine/run/tune/precision.h"

namespace strata {
namespace {

std::string word(const std::optional<Precision>& precision) {
  return precision ? std::string(name_of(*precision)) : "auto";
}

/// What the newest checkpoint that says anything was trained in. One that turns out to be damaged later has
/// it of those before it, unless the run file was changed between them.
std::optional<PrecisionFacts::Stored> stored_precision(const std::string& path) {
  if (path.empty()) return std::nullopt;
  for (const CheckpointEntry& entry : list_checkpoints(FileSystem::real(), path)) {
    if (entry.manifest) return {{entry.folder.string(), entry.manifest->progress.precision}};
  }
  return std::nullopt;
}

/// Rank 0's: another's list could be older.
std::optional<PrecisionFacts::Stored> agree_on_stored(const RunConfig& config, Communicator* world) {
  const std::string text = text_of_first_rank(world, [&] {
    const auto stored = stored_precision(config.checkpoint.path);
    if (!stored) return std::string();
    // A path may be of any bytes.
    return nlohmann::json{{"checkpoint", stored->checkpoint}, {"precision", name_of(stored->precision)}}.dump(
        -1, ' ', false, nlohmann::json::error_handler_t::replace);
  });
  if (text.empty()) return std::nullopt;
  const nlohmann::json json = nlohmann::json::parse(text);
  return {{json.at("checkpoint"), precision_named(json.at("precision").get<std::string>()).value()}};
}

bool fits_in_bf16(const Planner& planner) {
  std::vector<ModelToPlan> models = planner.models();
  for (ModelToPlan& model : models) model.request.strategy.precision = DType::bf16;
  return Planner(std::move(models), planner.is_several(), planner.rates()).find().has_value();
}

}  // namespace

std::string without_bf16(const Communicator* world) {
  const VectorTarget target = vector_target();
  if (target == VectorTarget::avx512_bf16) return "";
  return fmt::format("{}, whose vector code is {},",
                     world == nullptr ? "this CPU" : "the CPU of " + name_as_rank(world->rank()),
                     name_of(target));
}

std::string without_bf16_where_planned(const RunConfig& config) {
  const std::optional<bool> profiled = profiled_bf16(config.plan.machine);
  if (!profiled) return without_bf16(nullptr);
  return *profiled ? "" : "the CPU of " + config.plan.machine;
}

AgreedPrecision agree_on_precision(RunConfig& config, bool fresh, const std::string& without_bf16,
                                   Communicator* world) {
  require_same(world, {{"train.precision", word(config.train.precision)}},
               "all ranks of a run need the same run file");
  const std::vector<std::string> without = texts_of_ranks(world, [&] { return without_bf16; });
  const auto first = std::ranges::find_if(without, [](const std::string& who) { return !who.empty(); });
  PrecisionFacts facts{.stored = {}, .without_bf16 = first == without.end() ? "" : *first};
  const bool is_chosen = !config.train.precision;
  if (is_chosen) {
    if (!fresh) facts.stored = agree_on_stored(config, world);
    const PrecisionChoice choice = choose_precision(config, facts);
    config.train.precision = choice.precision;
    return {true, fmt::format("precision {}, which train.precision auto chose: {}", name_of(choice.precision),
                              choice.why)};
  }
  if (config.rounding() != Rounding::none && config.device.kind == DeviceKind::cpu) {
    return {
        false,
        "precision fp8, as train.precision says: CPUs have no instructions for it, so products are those of "
        "bf16 behind the rounding, and bf16 would be faster"};
  }
  const bool is_emulated = config.train.precision == DType::bf16 && config.device.kind == DeviceKind::cpu;
  if (!is_emulated || facts.without_bf16.empty()) return {};
  return {false, fmt::format("precision bf16, as train.precision says: {} has no bf16 instructions, so fp32 "
                             "would be no slower",
                             facts.without_bf16)};
}

std::vector<Plan> plans_in(const AgreedPrecision& precision, Planner& planner) {
  try {
    return planner.plan();
  } catch (const BudgetError& error) {
    const Strategy& first = planner.models().front().request.strategy;
    if (!precision.is_chosen || first.precision != DType::fp32 || !fits_in_bf16(planner)) throw;
    throw BudgetError(
        fmt::format("{} (train.precision auto chose fp32; with train.precision bf16 the run fits)",
                    error.what()),
        error.needed);
  }
}

}  // namespace strata
