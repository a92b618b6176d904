#include "engine/tools/report/progress_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/json_text.h"
#include "engine/model/model.h"

namespace strata {
namespace {

/// Those of the character that the byte begins in UTF-8; none if it goes on with one.
std::size_t columns_begun_by(char c) {
  const auto byte = static_cast<unsigned char>(c);
  if ((byte & 0xC0U) == 0x80U) return 0;
  return byte >= 0xE0U ? 2 : 1;
}

}  // namespace

std::string format_duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  if (whole >= 3600) return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
  if (whole >= 60) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}s", whole);
}

std::size_t columns_of(std::string_view text) {
  constexpr std::string_view kBlockElements = "\xE2\x96";  // U+2580 and on, which are narrow
  std::size_t columns = 0;
  for (std::size_t i = 0; i < text.size(); ++i)
    columns += text.substr(i).starts_with(kBlockElements) ? 1 : columns_begun_by(text[i]);
  return columns;
}

std::string shortened(std::string_view text, std::size_t columns) {
  const bool is_cut = columns_of(text) > columns;
  std::string kept;
  std::size_t taken = is_cut ? 1 : 0;  // by what stands for the rest
  for (const char c : text) {
    taken += columns_begun_by(c);
    if (taken > columns) break;
    const auto byte = static_cast<unsigned char>(c);
    kept += byte < 0x20 || byte == 0x7F ? '?' : c;
  }
  return is_cut && columns > 0 ? kept + "…" : kept;
}

std::string fitted(const std::vector<LinePart>& parts, std::size_t columns) {
  const auto joined = [&](bool is_brief, int most_rank) {
    std::string line;
    for (const LinePart& part : parts) {
      if (part.rank > most_rank) continue;
      line += line.empty() ? "" : "  ";
      line += is_brief && !part.brief.empty() ? part.brief : part.text;
    }
    return line;
  };
  int rank = std::ranges::max(parts, {}, &LinePart::rank).rank;
  std::string line = joined(/*is_brief=*/false, rank);
  if (columns_of(line) <= columns) return line;
  for (; rank >= 0; --rank) {
    line = joined(/*is_brief=*/true, rank);
    if (columns_of(line) <= columns) break;
  }
  return line;
}

std::string short_bytes(Bytes bytes) {
  constexpr std::array units = {"B", "K", "M", "G", "T"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < units.size(); ++unit) value /= 1024;
  return fmt::format("{:.3g}{}", value, units[unit]);
}

std::string quoted(const std::string& text) {
  std::string json = json_text(text), clean;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const auto byte = static_cast<unsigned char>(json[i]);
    const auto next = i + 1 < json.size() ? static_cast<unsigned char>(json[i + 1]) : 0;
    const bool is_control = byte == 0x7F, begins_control = byte == 0xC2 && next < 0xA0;  // U+0080 to U+009F
    clean += is_control || begins_control ? '?' : json[i];
    i += begins_control ? 1 : 0;
  }
  return clean;
}

std::vector<std::string> lines_of(const SamplePoint& point) {
  constexpr std::size_t kPromptColumns = 48;
  std::vector<std::string> lines;
  if (point.is_of_random_weights) return lines;
  for (const Sample& sample : point.samples)
    lines.push_back(fmt::format("step {}: {} {}", point.step,
                                shortened(quoted(sample.prompt), kPromptColumns), quoted(sample.text)));
  return lines;
}

std::string line_of(const SamplingProgress& progress) {
  return fmt::format("step {}: samples, {} tokens each so far, {} of {} ended", progress.step,
                     progress.tokens, progress.ended, progress.samples);
}

std::vector<std::string> SkippedSteps::lines_of(const StepReport& report) {
  constexpr std::int64_t kNamed = 10;  // loss scaling alone may skip this many at the start
  in_a_row_ = report.skipped ? in_a_row_ + 1 : 0;
  if (in_a_row_ == 0 || in_a_row_ > kNamed) return {};
  std::vector<std::string> lines = {
      fmt::format("step {}: {} update nothing", report.step + 1, why_skipped(report))};
  if (in_a_row_ == kNamed) {
    lines.push_back(
        fmt::format("warning: {} steps in a row have updated nothing, and the loss is {}; those that follow "
                    "are not named",
                    kNamed, report.loss));
  }
  return lines;
}

}  // namespace strata
