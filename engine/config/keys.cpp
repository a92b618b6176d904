#include "engine/config/keys.h"

#include "engine/config/section_keys.h"

namespace strata {
namespace {

std::vector<Key> make_keys() {
  std::vector<Key> keys;
  add_training_keys(keys);
  add_machine_keys(keys);
  return keys;
}

}  // namespace

const std::vector<Key>& config_keys() {
  static const std::vector<Key> keys = make_keys();
  return keys;
}

const std::vector<Section>& config_sections() {
  static const std::vector<Section> sections = {
      {"model", "The transformer to train: one of path and architecture."},
      {"data", "What it is trained on."},
      {"train", "How long, in which portions and how exactly."},
      {"train.loss_scale",
       "Dynamic loss scaling, as torch.amp.GradScaler does it; with precision fp16 only."},
      {"train.samples", "Texts that the model goes on with now and then, to read how it comes along."},
      {"adapter", "What is trained beside a model that stays as it is."},
      {"optimizer", "How a gradient becomes a step."},
      {"optimizer.schedule", "The learning rate over the run."},
      {"parallel", "The mesh of ranks."},
      {"memory", "Budgets of the tiers, as 2GiB, 512MB, a number of bytes, or unlimited."},
      {"memory.nvme", "The tier of local drives."},
      {"memory.nvme.limit",
       "Leaves the rest of the drives' time to others, or studies slower ones, as 1GB/s."},
      {"memory.placement", "Tiers for kinds of data. auto: the device what fits, then the host, then nvme."},
      {"plan", "How the step is laid out; no choice here but search changes a result."},
      {"device", "What computes."},
      {"device.link", "Limits for the CPU device's copies, as 1GB/s."},
      {"checkpoint", "What outlives a crash. checkpoint: none saves nothing.", "checkpoint.path"},
      {"report", "What is written besides the progress line."},
      {"report.trace", "Chosen steps as a trace for ui.perfetto.dev, written while the run goes on."},
  };
  return sections;
}

}  // namespace strata
