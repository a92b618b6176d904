#include "engine/tools/report/policy_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include "base/counts.h"
#include "base/dtype.h"
#include "base/precision.h"
#include "engine/model/graph/unit.h"
#include "engine/model/model.h"
#include "optim/update_policy.h"
#include "optim/update_rule.h"

namespace strata {
namespace {

/// What one policy updates.
struct Updated {
  UpdatePolicy policy;
  std::int64_t parameters = 0;
  std::vector<std::string> names;
};

/// Has an entry for each policy that updates something.
std::vector<Updated> updated_by_policies(const Model& model) {
  std::vector<Updated> all;
  for (const UpdatePolicy& policy : model.policies) all.push_back({.policy = policy, .names = {}});
  for (const Unit& unit : model.units) {
    for (const TensorSpec& tensor : unit.tensors) {
      if (tensor.flat == Flat::frozen) continue;
      all[tensor.policy].parameters += tensor.whole_elements();
      all[tensor.policy].names.push_back(tensor.hf_name);
    }
  }
  std::erase_if(all, [](const Updated& updated) { return updated.names.empty(); });
  return all;
}

/// With * for each number between dots: model.layers.*.mlp.up_proj.weight.
std::string without_numbers(const std::string& name) {
  std::string result;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string part = name.substr(begin, end - begin);
    const bool is_number =
        !part.empty() && std::ranges::all_of(part, [](unsigned char c) { return std::isdigit(c) != 0; });
    result += (begin == 0 ? "" : ".") + (is_number ? "*" : part);
    begin = end + 1;
  }
  return result;
}

std::string kinds_text(const std::vector<std::string>& names) {
  std::vector<std::pair<std::string, std::int64_t>> kinds;
  for (const std::string& name : names) {
    const std::string kind = without_numbers(name);
    const auto found = std::ranges::find(kinds, kind, &std::pair<std::string, std::int64_t>::first);
    if (found == kinds.end()) {
      kinds.emplace_back(kind, 1);
    } else {
      ++found->second;
    }
  }
  std::vector<std::string> texts;
  texts.reserve(kinds.size());
  for (const auto& [kind, count] : kinds)
    texts.push_back(count == 1 ? kind : fmt::format("{} ({})", kind, count));
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace

std::string policies_text(const Model& model) {
  std::string text;
  for (const Updated& updated : updated_by_policies(model)) {
    const UpdatePolicy& policy = updated.policy;
    const double factor = policy.learning_rate_factor;
    const double scale = policy.settings.scale;
    const std::string rate = fmt::format("lr{}{}", factor == 1 ? "" : fmt::format(" x {}", factor),
                                         scale == 1 ? "" : fmt::format(", scaled by {:.3g}", scale));
    const std::string schedule =
        policy.schedule == 0 ? "" : fmt::format(" by the schedule of group {}", policy.schedule);
    text += fmt::format("{:<8} {}, {}{}, weight decay {}: {} parameters, {}\n",
                        text.empty() ? "policies" : "", name_of(policy.rule), rate, schedule,
                        policy.weight_decay, rounded_count(updated.parameters), kinds_text(updated.names));
  }
  return text;
}

nlohmann::json policies_json(const Model& model) {
  nlohmann::json json = nlohmann::json::array();
  for (const Updated& updated : updated_by_policies(model)) {
    const std::size_t group = updated.policy.schedule;
    json.push_back({{"rule", name_of(updated.policy.rule)},
                    {"lr_factor", updated.policy.learning_rate_factor},
                    {"scale", updated.policy.settings.scale},
                    {"schedule_of_group", group == 0 ? nlohmann::json() : nlohmann::json(group)},
                    {"weight_decay", updated.policy.weight_decay},
                    {"parameters", updated.parameters},
                    {"tensors", updated.names}});
  }
  return json;
}

}  // namespace strata
