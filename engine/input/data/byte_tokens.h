// Whether the bytes of a text mean anything to a pretrained model. Plain functions.
#pragma once

#include <cstdint>
#include <string>

namespace strata {

struct RunConfig;

/// What a user should know about data.tokenizer bytes with the model of model.path; empty if nothing is to
/// be said. Throws ConfigError if the folder has a tokenizer of its own, so that a byte is certainly not
/// the id of a byte there.
std::string doubt_about_bytes(const RunConfig& config, std::int64_t vocabulary);

}  // namespace strata
