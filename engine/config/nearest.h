// What to say about a key that does not exist: ours for it if another tool has it, else the nearest.
#pragma once

#include <string>
#include <vector>

namespace strata {

/// "it is optimizer.lr here", "did you mean 'optimizer.lr'?", or if nothing is near, the keys of the section
/// that `unknown` is in.
/// `beside`: what else can stand there.
std::string suggest_key(const std::string& unknown, const std::vector<std::string>& beside = {});

/// "it is train.steps", "it is model.path or data.path", or for a name of another tool "it is optimizer.lr
/// here"; else empty. A - stands for a _.
std::string answer_to_key_name(std::string name);

/// "did you mean 'train'?" if one of `names` is near to `unknown`; else empty.
std::string suggest_name(const std::string& unknown, const std::vector<std::string>& names);

/// The names of the keys and sections directly inside `section` (empty: the top level): "type, lr, betas".
std::string keys_in(const std::string& section);

}  // namespace strata
