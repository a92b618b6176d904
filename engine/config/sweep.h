// Internal to config: the sweep of a run file. Plain values.
#pragma once

#include <string>
#include <vector>

#include "engine/config/loader.h"

namespace strata {

/// One value of a swept key, as a layer of a model.
struct SweptValue {
  std::string name;  ///< "lr=1e-4"
  Layer layer;
};

struct SweptKey {
  std::string path;
  std::string place;
  std::vector<SweptValue> values;
};

/// The keys of `sweep`, which may stand in sections. Throws ConfigError.
std::vector<SweptKey> read_sweep(const YAML::Node& sweep, const Source& source);

/// Which value each key has in each model: the product, in which the last key's values alternate fastest.
/// Without keys it is one combination of nothing. REQUIRES: combinations() says so few.
std::vector<std::vector<const SweptValue*>> product(const std::vector<SweptKey>& keys);
/// How many the product has, or `most` if that is less.
std::int64_t combinations(const std::vector<SweptKey>& keys, std::int64_t most);

/// Whether `key` is `of` or stands within it, as model.config.n_layer in model.config.
bool is_within(const std::string& key, const std::string& of);
/// Whether a value of one replaces something of the other.
bool overlap(const std::string& a, const std::string& b);

}  // namespace strata
