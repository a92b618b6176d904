// Ranks that come to one result: if an action fails on one of them, it fails on all, with that rank's
// sentence, and none is left waiting. Every rank of the group makes the same calls in the same order. A group
// of one, or a null communicator, just performs the action.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "collectives/communicator.h"

namespace strata {

/// Performs `action` on rank 0. What it throws there, every rank throws, naming rank 0 and its host: a
/// ConfigError, a DamageError, an IoError or a SystemError as such, others as an Error. Returns when it is
/// done.
void on_first_rank(Communicator* ranks, const std::function<void()>& action);
/// Performs `action` on rank 0, and returns its text on every rank. Throws as on_first_rank() does.
std::string text_of_first_rank(Communicator* ranks, const std::function<std::string()>& action);

/// Performs `action` on every rank. If it throws on some, every rank throws what the first of them met.
/// Returns when all are done.
void on_every_rank(Communicator* ranks, const std::function<void()>& action);
/// Performs `action` on every rank, and returns all texts on every rank, by rank. Throws as on_every_rank()
/// does.
std::vector<std::string> texts_of_ranks(Communicator* ranks, const std::function<std::string()>& action);

/// Every rank calls this before it throws an error that all ranks have come to. The first rank to end then
/// does not end the call by which another rank is just hearing of the error. The functions above call it
/// themselves.
void let_all_hear(Communicator& ranks);

}  // namespace strata
