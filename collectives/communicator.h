// A group of ranks that exchange values. Three implementations: threads (ranks of one process, for tests and
// for studying failures), mpi (processes, in host memory) and nccl (GPUs, ordered by a stream). The interface
// is shaped like NCCL's: counts are std::size_t, and every rank of the group makes the same calls in the same
// order. If a rank does not, threads and mpi say so. An error on one rank ends the calls of all. One thread
// calls a communicator at a time. Different communicators, also of the same ranks, may be used from different
// threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/nth.h"

namespace strata {

/// What a count counts.
enum class Element : std::uint8_t {
  byte,  ///< only moved, never reduced
  fp32,
  bf16,  ///< sums accumulate in fp32 and, in host memory, are rounded once
  fp64
};

constexpr std::size_t size_of(Element element) {
  constexpr std::size_t kSizes[] = {1, 4, 2, 8};
  return nth(kSizes, element);
}

enum class ReduceOp : std::uint8_t { sum, min, max };

/// Reductions in host memory fold the ranks in their order, 0, 1, …, size() - 1, each element by itself. The
/// bits depend on nothing else. All ranks get the same bits, threads and mpi agree, and a NaN stays a NaN.
/// nccl promises the same bits on all ranks and in every run of the same ranks. Its order is its own and may
/// round bf16 on the way.
///
/// Calls on host memory return when they are done; those of nccl when they are issued to its stream. Each may
/// throw CommError, which names the call, this rank and the rank it waited for; no communicator of these
/// ranks is of any use then.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// `send`: count elements. `receive`: size() · count, rank r's from r · count on. In place if `send` is
  /// this rank's part of `receive`.
  virtual void all_gather(const void* send, void* receive, std::size_t count, Element element) = 0;
  /// `send`: size() · count elements, those for rank r from r · count on. `receive`: count. In place if
  /// `receive` is this rank's part of `send`; the rest of `send` is then of no meaning.
  virtual void reduce_scatter(const void* send, void* receive, std::size_t count, Element element,
                              ReduceOp op = ReduceOp::sum) = 0;
  /// `send` and `receive`: count elements; may be the same.
  virtual void all_reduce(const void* send, void* receive, std::size_t count, Element element,
                          ReduceOp op = ReduceOp::sum) = 0;
  virtual void broadcast(void* data, std::size_t count, Element element, int root) = 0;
  /// `send` and `receive`: size() · count elements; the part for rank r, and that from it, from r · count on.
  /// Not in place.
  virtual void all_to_all(const void* send, void* receive, std::size_t count, Element element) = 0;

  /// A message between two ranks, as long on one as on the other; each may wait for the other. Messages of a
  /// pair arrive in the order in which they were sent.
  virtual void send(const void* data, std::size_t count, Element element, int peer) = 0;
  virtual void receive(void* data, std::size_t count, Element element, int peer) = 0;
  /// Sends and receives between the two calls happen together, in any order: none waits for another. They are
  /// done when end_group() returns, and need their memory until then.
  virtual void begin_group() = 0;
  virtual void end_group() = 0;

  /// Ranks that give the same color form a new group, in the order of their keys, and of their ranks here
  /// if those are equal. Every rank calls it; a negative color gives null. split(0, rank()) is an
  /// independent copy.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;

  /// Payload that calls of this communicator have sent to other ranks since it was made. mpi adds up the
  /// messages that it posts, without headers, and what other ranks say that they read of its memory. With
  /// threads a byte counts as sent by the rank whose memory another reads, or which writes it into another's.
  /// NCCL does not tell: nccl adds what collectives/sent_bytes.h says. Asked by the thread that calls,
  /// between calls.
  virtual std::size_t sent_bytes() const = 0;

  /// Why the group can no longer be used, or nothing. Any thread may ask.
  virtual std::optional<std::string> failure() const = 0;
  /// Ends the calls of all ranks, of this group and of all that were split from the same beginning, with an
  /// EndedByRankError that says `reason` and names this rank. Any thread may call it, at any time; it does
  /// not wait.
  virtual void abort(const std::string& reason) = 0;
};

}  // namespace strata
