#include "engine/tools/report/change_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/nth.h"
#include "engine/tools/report/figures.h"

namespace strata {
namespace {

/// The change as a user writes it into the run file.
std::string line_of(const Change& change) {
  const auto faster = [](std::string_view what, std::string_view key, double factor) {
    return fmt::format("a machine whose {} is {:.2g} times as fast (in the profile of plan.machine: {})",
                       what, factor, key);
  };
  if (change.link != 1)
    return faster("link between host and device", "h2d_bytes_per_second, d2h_bytes_per_second", change.link);
  if (change.drive != 1)
    return faster("drive", "nvme_read_bytes_per_second, nvme_write_bytes_per_second", change.drive);
  std::string line;
  for (const std::string& setting : change.settings)
    line += fmt::format("{}--set {}", line.empty() ? "" : " ", setting);
  return line;
}

/// What else there is to say of its keys, each by the start of a setting.
std::string words_of(const Change& change) {
  constexpr auto kWords = std::to_array<std::pair<std::string_view, std::string_view>>({
      {"train.microbatch", "the same sequences pass in other portions, so sums are rounded in another order"},
      {"train.batch",
       "each step learns from another number of sequences, so the learning rate may need another value"},
      {"train.precision=bf16", "the device computes in 16 bits"},
      {"optimizer.master=split",
       "master weights stay exact fp32 values in fewer bytes; a bf16 weight differs where rounding had a "
       "tie"},
      {"optimizer.master=none",
       "there are no master weights: updates round the weights to 16 bits, stochastically"},
      {"optimizer.moments=bf16",
       "moments are rounded to 16 bits, stochastically: results are near, not equal"},
      {"optimizer.moments=8bit", "moments are kept in 8 bits: results are near, not equal"},
      {"optimizer.clip_by=previous_step",
       "gradients are clipped by the norm of the step before, so updates wait for no norm; one step of huge "
       "gradients is not held back"},
      {"parallel.zero_stage", "ranks share out the state otherwise and add up gradients in another order"},
      {"parallel.reduce_dtype", "gradients are rounded to 16 bits on their way between ranks"},
      {"memory.nvme.path", "name a folder on a local drive of your own in its place"},
      {"device.link", "it stands for a link so fast"},
      {"memory.nvme.limit", "it stands for drives so fast"},
  });
  std::string all;
  for (const auto& [start, words] : kWords) {
    const auto is_meant = [begin = start](const std::string& setting) { return setting.starts_with(begin); };
    if (std::ranges::any_of(change.settings, is_meant))
      all += fmt::format("{}{}", all.empty() ? "" : "; ", words);
  }
  return all;
}

std::string effect_text(const Change& change) {
  constexpr auto kEffects = std::to_array<std::string_view>(
      {"It changes no bit of the result", "The mathematics stays, its rounding does not",
       "It changes no bit of the result, and takes a machine that has it", "It changes what is learned"});
  const std::string_view effect = nth(kEffects, change.effect);
  const std::string words = words_of(change);
  return words.empty() ? fmt::format("{}.", effect) : fmt::format("{}: {}.", effect, words);
}

/// "a -> b", or b alone.
std::string before_and_after(const std::string& before, const std::string& after) {
  return before.empty() || before == after ? after : before + " -> " + after;
}

std::string memory_text(const Prediction& change, const Prediction* now) {
  std::string text;
  for (const Tier tier : used_tiers(change.budgets)) {
    const std::string before = now == nullptr ? "" : format_bytes(now->peaks[tier]);
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name_of(tier),
                        before_and_after(before, format_bytes(change.peaks[tier])));
  }
  return text;
}

}  // namespace

std::string seconds_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.3f} s", seconds);
  return seconds >= 0.001 ? fmt::format("{:.1f} ms", 1e3 * seconds) : fmt::format("{:.3f} ms", 1e3 * seconds);
}

std::string speed_text(const Prediction& prediction) {
  return fmt::format("{:.0f} tokens/s", 1 / prediction.seconds_per_token());
}

std::string change_text(const Prediction& change, const Prediction* now, std::size_t number) {
  const bool has_tokens_of_now = now == nullptr || now->tokens == change.tokens;
  const auto step = [&](const Prediction& one) {
    return seconds_text(one.step.seconds) +
           (has_tokens_of_now ? "" : fmt::format(" for {} tokens", one.tokens));
  };
  const auto before = [&](const auto& words) { return now == nullptr ? std::string() : words(*now); };
  std::string gain;
  if (now != nullptr) {
    gain = fmt::format(", {:.1f} % less time per token",
                       100 * (1 - change.seconds_per_token() / now->seconds_per_token()));
  }
  return fmt::format("  {}. {}\n     step: {}; {}{}\n     peaks: {}\n     {}\n", number,
                     line_of(change.change), before_and_after(before(step), step(change)),
                     before_and_after(before(speed_text), speed_text(change)), gain, memory_text(change, now),
                     effect_text(change.change));
}

nlohmann::json prediction_json(const Prediction& prediction) {
  nlohmann::json json = {{"settings", prediction.change.settings},
                         {"effect", name_of(prediction.change.effect)},
                         {"step_seconds", prediction.step.seconds},
                         {"tokens_per_step", prediction.tokens},
                         {"tokens_per_second", 1 / prediction.seconds_per_token()},
                         {"peak_bytes", by_tier([&](Tier tier) { return prediction.peaks[tier]; })}};
  if (prediction.change.link != 1) json["link"] = prediction.change.link;
  if (prediction.change.drive != 1) json["drive"] = prediction.change.drive;
  return json;
}

}  // namespace strata
