// Damage to the JSON of files that anybody may have written: each value replaced by one of another kind.
#pragma once

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

namespace strata::test {

namespace detail {

inline void add_places(const nlohmann::json& json, const nlohmann::json::json_pointer& place,
                       std::vector<nlohmann::json::json_pointer>& places) {
  places.push_back(place);
  if (!json.is_structured()) return;
  // A list's keys are its places.
  for (const auto& [key, value] : json.items()) add_places(value, place / key, places);
}

}  // namespace detail

/// The file with one to three of its values replaced by null, an empty list or map, huge or odd numbers,
/// texts, or another value of the file, or left out.
inline nlohmann::json damaged(nlohmann::json file, std::mt19937& random) {
  using nlohmann::json;
  static const std::vector<json> kValues = {nullptr,
                                            json::array(),
                                            json::object(),
                                            -1,
                                            0,
                                            1,
                                            1e308,
                                            -0.5,
                                            INT64_MAX,
                                            UINT64_MAX,
                                            "",
                                            "x",
                                            true,
                                            false,
                                            json::array({nullptr}),
                                            json::array({json::array()}),
                                            json::array({1, "x"}),
                                            {{"", nullptr}},
                                            {{"type", nullptr}},
                                            {{"type", "Sequence"}},
                                            {{"type", "ByteLevel"}},
                                            std::string(100'000, 'a'),
                                            std::string(1, '\0')};
  for (std::size_t count = 1 + random() % 3; count > 0; --count) {
    std::vector<json::json_pointer> places;
    detail::add_places(file, json::json_pointer(), places);
    const json::json_pointer place = places[random() % places.size()];
    const std::size_t chosen = random() % (kValues.size() + 2);
    if (chosen < kValues.size()) {
      file[place] = kValues[chosen];
    } else if (chosen == kValues.size()) {
      const json other = file[places[random() % places.size()]];
      file[place] = other;
    } else if (!place.empty() && file[place.parent_pointer()].is_object()) {
      file[place.parent_pointer()].erase(place.back());
    }
  }
  return file;
}

}  // namespace strata::test
