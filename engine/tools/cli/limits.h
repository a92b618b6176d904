// Limits of the system under which this process runs: what it needs of them, and how it is said that one is
// met. Plain functions.
#pragma once

#include <exception>
#include <string>

namespace strata {

/// Gives threads, and the first one, the stack that they need, whatever `ulimit -s` says. Throws ConfigError
/// if the limit is fixed and too low. Call before a thread is started.
void prepare_stacks();

/// Throws ConfigError if the machine, its container, or the limit of addresses (`ulimit -v`) has less memory
/// than any run takes. Call before much is taken: who takes too much is killed.
void refuse_small_machine();

/// What an error says. If it is one of the system that names no limit, the sentence does.
std::string sentence_of(const std::exception& error);

}  // namespace strata
