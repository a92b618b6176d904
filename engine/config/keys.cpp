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
      {"model", "The model to train: give path or architecture."},
      {"data", "The data to train on."},
      {"train", "Steps, batch, precision and other settings of training."},
      {"train.loss_scale",
       "Dynamic loss scaling, as torch.amp.GradScaler does it; with precision fp16 only."},
      {"train.samples", "Texts that the model writes during training, to see what it has learned."},
      {"train.ema", "Moving averages of the weights."},
      {"train.spike", "Steps with gradients that are far too large."},
      {"adapter", "A small part that is trained beside a frozen model."},
      {"optimizer", "The optimizer and its settings."},
      {"optimizer.schedule", "The learning rate over the run."},
      {"parallel", "The mesh of ranks."},
      {"memory", "Budgets of the tiers, as 2GiB, 512MB, a number of bytes, or unlimited."},
      {"memory.nvme", "The tier of local drives."},
      {"memory.nvme.limit",
       "Limits of the drives' rates, as 1GB/s: for other users, or to study slower drives."},
      {"memory.placement", "Tiers for kinds of data. auto: the device first, then the host, then nvme."},
      {"plan", "How a step is planned. No key here changes a result, except search."},
      {"device", "The device that computes."},
      {"device.link", "Limits of the CPU device's copies, as 1GB/s."},
      {"checkpoint", "What survives a crash. checkpoint: none saves nothing.", "checkpoint.path"},
      {"report", "Files that a run writes beside the progress line."},
      {"report.trace", "Chosen steps as a trace for ui.perfetto.dev, written during training."},
  };
  return sections;
}

}  // namespace strata
