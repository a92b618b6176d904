#include "engine/plan/merge/shared_frozen.h"

#include <fmt/format.h>

#include <map>
#include <string>

#include "engine/config/choices.h"
#include "engine/model/model.h"

namespace strata {
namespace {

std::string text_of(const std::vector<Stretch>& stretches) {
  std::string text;
  for (const Stretch& stretch : stretches) text += fmt::format(" {}+{}", stretch.first, stretch.count);
  return text;
}

/// What the unit's frozen values depend on besides their buffer's type, as text; empty if it has none, or
/// none from a folder.
std::string source_of(const ModelToPlan& model, const Unit& unit) {
  if (model.weights.empty() || unit.frozen_elements == 0) return {};
  const Strategy& strategy = model.request.strategy;
  const Mesh& mesh = strategy.mesh;
  std::string text =
      fmt::format("{}\n{} {} {} {} {} {} {} {} {}\n", model.weights, mesh.replicate, mesh.shard,
                  mesh.pipeline, mesh.tensor, mesh.key_copies, mesh.context, unit.frozen_elements,
                  word_of(strategy.packed.frozen), name_of(strategy.precision));
  for (const TensorSpec& tensor : unit.tensors) {
    if (tensor.flat != Flat::frozen) continue;
    text += fmt::format("{} {} {} {},{},{}\n", tensor.hf_name, tensor.offset, tensor.elements,
                        tensor.whole_offset, text_of(tensor.rows), text_of(tensor.columns));
  }
  return text;
}

}  // namespace

std::vector<std::vector<std::int32_t>> find_shared_frozen(std::span<const ModelToPlan> models) {
  struct Source {
    std::int32_t number = -1, units = 0;
  };
  std::map<std::string, Source> sources;
  std::vector<std::vector<Source*>> found(models.size());
  for (std::size_t m = 0; m < models.size(); ++m) {
    for (const Unit& unit : models[m].model->units) {
      const std::string text = source_of(models[m], unit);
      found[m].push_back(text.empty() ? nullptr : &sources[text]);
      if (Source* source = found[m].back()) ++source->units;
    }
  }
  std::int32_t count = 0;
  std::vector<std::vector<std::int32_t>> numbers(models.size());
  for (std::size_t m = 0; m < models.size(); ++m) {
    for (Source* source : found[m]) {
      const bool is_shared = source != nullptr && source->units > 1;
      if (is_shared && source->number < 0) source->number = count++;
      numbers[m].push_back(is_shared ? source->number : -1);
    }
  }
  return numbers;
}

}  // namespace strata
