// Damage to the JSON of files that anybody may have written: each value replaced by one of another kind.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"

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

/// Calls `read` with `count` damaged forms of the file, or STRATA_TEST_DAMAGED times as many. Each must be
/// read, or refused in a short sentence that names the file, within 1 GiB. Anything but a ConfigError ends
/// the test.
inline void expect_read_or_refused(const nlohmann::json& file, const std::string& name, std::uint32_t seed,
                                   int count, const std::function<void(const nlohmann::json&)>& read) {
  const auto most_kib = [] {
    rusage use{};
    ::getrusage(RUSAGE_SELF, &use);
    return use.ru_maxrss;
  };
  const char* const more = std::getenv("STRATA_TEST_DAMAGED");  // NOLINT(concurrency-mt-unsafe)
  std::mt19937 random(seed);
  for (int i = 0; i < count * (more != nullptr ? std::atoi(more) : 1); ++i) {
    const nlohmann::json one = damaged(file, random);
    const long before = most_kib();
    SCOPED_TRACE(one.dump().substr(0, 4000));
    try {
      read(one);
    } catch (const ConfigError& error) {
      const std::string told = error.what();
      EXPECT_THAT(told, ::testing::HasSubstr(name));
      EXPECT_THAT(told, ::testing::Not(::testing::HasSubstr("json.exception")));
      EXPECT_LT(told.size(), 2000U) << told.substr(0, 200);
    }
    EXPECT_LT(most_kib() - before, 1 << 20);
  }
}

}  // namespace strata::test
