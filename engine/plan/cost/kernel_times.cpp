#include "engine/plan/cost/kernel_times.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace strata {
namespace {

/// The first word of a call's name, with the type of its first operand: rates differ by both.
std::string operator_of(const KernelWork& call) {
  const std::string_view name = call.name;
  const std::size_t end = std::min(name.find(' '), name.size());
  std::string key(name.substr(0, end));
  const std::size_t first = std::min(name.find_first_not_of(" -", end), name.size());
  const std::string_view size = name.substr(first, std::min(name.find(' ', first), name.size()) - first);
  const std::size_t columns = size.find('x');
  if (columns == std::string_view::npos) return key;
  const std::size_t type = std::min(size.find_first_not_of("0123456789", columns + 1), size.size());
  return key + ' ' + std::string(size.substr(type));
}

}  // namespace

double KernelTimes::work_of(const KernelWork& call) {
  return std::max(call.flops > 0 ? call.flops : static_cast<double>(call.bytes), 1.0);
}

void KernelTimes::add(const KernelWork& call, double seconds) {
  std::vector<Measured>& calls = by_operator_[operator_of(call)];
  const auto found = std::ranges::find(calls, call.name, [](const Measured& one) { return one.call.name; });
  if (found != calls.end()) {
    found->seconds = seconds;
  } else {
    calls.push_back({call, seconds});
  }
}

void KernelTimes::speed_up(double times) {
  for (auto& [name, calls] : by_operator_) {
    for (Measured& one : calls) one.seconds /= times;
  }
}

std::size_t KernelTimes::size() const {
  std::size_t calls = 0;
  for (const auto& [name, measured] : by_operator_) calls += measured.size();
  return calls;
}

bool KernelTimes::is_valid() const {
  return std::ranges::all_of(by_operator_, [](const auto& entry) {
    return std::ranges::all_of(entry.second, [](const Measured& one) {
      return one.seconds > 0 && std::isfinite(one.seconds) && one.call.flops >= 0 &&
             std::isfinite(one.call.flops) && one.call.bytes >= 0;
    });
  });
}

bool KernelTimes::has(const KernelWork& call) const {
  const auto found = by_operator_.find(operator_of(call));
  return found != by_operator_.end() &&
         std::ranges::any_of(found->second, [&](const Measured& one) { return one.call.name == call.name; });
}

std::optional<double> KernelTimes::seconds(const KernelWork& call) const {
  const auto found = by_operator_.find(operator_of(call));
  if (found == by_operator_.end()) return std::nullopt;
  const double work = work_of(call);
  const auto distance = [&](const Measured& one) {
    return one.call.name == call.name ? -1 : std::abs(std::log(work_of(one.call) / work));
  };
  const Measured& nearest = *std::ranges::min_element(found->second, {}, distance);
  return nearest.call.name == call.name ? nearest.seconds : nearest.seconds * work / work_of(nearest.call);
}

nlohmann::json KernelTimes::to_json() const {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [name, calls] : by_operator_) {
    for (const auto& [call, seconds] : calls)
      list.push_back(
          {{"call", call.name}, {"flops", call.flops}, {"bytes", call.bytes}, {"seconds", seconds}});
  }
  return list;
}

KernelTimes KernelTimes::from_json(const nlohmann::json& json) {
  KernelTimes times;
  for (const nlohmann::json& entry : json) {
    const nlohmann::json& bytes = entry.at("bytes");
    times.add({.name = entry.at("call"),
               .flops = entry.at("flops"),
               .bytes = bytes.is_number_integer() ? bytes.get<Bytes>() : -1},  // which is not valid
              entry.at("seconds"));
  }
  return times;
}

}  // namespace strata
