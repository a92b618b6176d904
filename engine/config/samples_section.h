// The samples section of a run file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata {

/// Texts that the model goes on with between steps, as it is then.
struct SamplesSection {
  std::vector<std::string> prompts;  ///< empty: there are none
  std::int64_t every = 0;            ///< steps; 0: before the first and after the last alone
  std::int64_t max_length = 128;     ///< tokens of a sample, its prompt included
  double temperature = 0;            ///< 0: the likeliest token
  double top_p = 1;
  std::int64_t top_k = 0;  ///< 0: all
  bool chat = false;       ///< prompts are what a user says, in the model's chat template
  friend bool operator==(const SamplesSection&, const SamplesSection&) = default;
};

}  // namespace strata
