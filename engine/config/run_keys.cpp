#include "engine/config/run_keys.h"

#include <algorithm>
#include <functional>

#include "engine/config/section_keys.h"

namespace strata {
namespace {

using namespace value;  // NOLINT(google-build-using-namespace): the table below reads as a table

RunKey key_of_nodes(const std::string& path, const std::string& type, const std::string& doc,
                    void (*set)(RunSections&, const YAML::Node&)) {
  RunKey key;
  key.path = path;
  key.type = type;
  key.doc = doc;
  key.set = [set](RunSections& sections, const YAML::Node& node, const std::string&) { set(sections, node); };
  key.get = [](const RunSections&) { return ""; };
  key.check = [](const RunSections&) { return ""; };
  return key;
}

void add_models(std::vector<RunKey>& keys) {
  keys.push_back(key_of_nodes(
      "models", "list of run files and maps",
      "Several models that one run trains at once: models: [small.yaml, {run: large.yaml, train: {seed: 2}}, "
      "{name: slow, optimizer.lr: 1e-4}]. An entry is a run file, or a map of keys, in sections or with "
      "dots. A map is laid over the rest of this file. If it has `run`, it is laid over that run file, and "
      "this file's model, data and so on do not count. `name` (letters, digits and . _ = , + -) is the "
      "model's name in reports and folders. Left out: the name of its run file without .yaml, or model-1 by "
      "its number. memory, plan, device, report.trace, train.threads and train.watchdog belong to the run: "
      "this file gives them for all models, and those of other run files do not count. A model's checkpoints "
      "are in checkpoint.path/NAME, its metrics in report.metrics with .NAME before the extension, its event "
      "files in report.tensorboard/NAME. Its entry or run file may give others. --set counts for every "
      "model.",
      [](RunSections& sections, const YAML::Node& node) {
        if (!node.IsSequence() || node.size() == 0)
          refuse(node, "a list such as [small.yaml, {train: {seed: 2}}]");
        sections.models.reset(node);
      }));
  keys.push_back(
      key_of_nodes("sweep", "map of lists",
                   "Values of keys; every combination is a model. sweep: {optimizer.lr: [1e-4, 3e-4], "
                   "train.seed: [1, 2]} has four models, and the last key's values alternate fastest. With "
                   "`models`, every entry has every combination. The name of a model has the last words of "
                   "the keys and the values: lr=1e-4,seed=1. 1000 models at most.",
                   [](RunSections& sections, const YAML::Node& node) {
                     if (!node.IsMap() || node.size() == 0)
                       refuse(node, "a map such as {train.seed: [1, 2]}");
                     sections.sweep.reset(node);
                   }));
}

std::string check_rungs(const std::vector<std::int64_t>& steps) {
  const bool rises = std::ranges::adjacent_find(steps, std::greater_equal()) == steps.end();
  return (steps.empty() || steps.front() > 0) && rises ? "" : "must be positive and rise";
}

void add_select(std::vector<RunKey>& keys) {
  using S = Selection;
  /// A selection must not look as if it did something when it does nothing.
  const auto of_rungs = [](RunKey& key, auto S::*field) {
    require(key, {}, [field](const RunSections& sections) -> std::string {
      return sections.select.rung_steps.empty() && sections.select.*field != S().*field
                 ? "is of no effect without select.rung_steps, the steps at which models are compared"
                 : "";
    });
  };
  SectionKeys<S, RunSections> section(keys, "select", &RunSections::select);
  section.add<IntegerList>(
      "rung_steps", &S::rung_steps, "steps",
      "After these steps of each model, models are compared, and the worst are ended: select: {rung_steps: "
      "[100, 300], keep: 0.5}. Left out: all are trained to their end.",
      check_rungs);
  of_rungs(section.add<Number>("keep", &S::keep, "", "The part of the models that continues after each rung.",
                               [](const double& value) -> std::string {
                                 return value <= 0 || value >= 1 ? "must be more than 0 and less than 1" : "";
                               }),
           &S::keep);
  of_rungs(section.add<Word<SelectBy>>(
               "by", &S::by, "",
               "validation: the held-out loss, which is measured at each rung, whatever train.validate_every "
               "says. training: the loss of the rung's step; at the end the mean of the last 10 steps."),
           &S::by);
}

}  // namespace

const std::vector<RunKey>& run_keys() {
  static const std::vector<RunKey> keys = [] {
    std::vector<RunKey> all;
    add_models(all);
    add_select(all);
    return all;
  }();
  return keys;
}

const std::vector<Section>& run_sections() {
  static const std::vector<Section> sections = {
      {"select", "Which of several models are trained to their end."},
  };
  return sections;
}

bool is_of_run(const std::string& path) {
  return path.starts_with("memory.") || path.starts_with("plan.") || path.starts_with("device.") ||
         path.starts_with("report.trace.") || path == "train.threads" || path == "train.watchdog";
}

}  // namespace strata
