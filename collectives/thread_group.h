// Where the ranks of a threads communicator meet: what each offers to the others in a call, and the messages
// between them. The rank that comes last does the parts of all in a call of the whole group, and the others
// sleep until then: each is woken once. A rank may give up only before all have come, so it never takes away
// memory that another reads.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/nth.h"
#include "collectives/note.h"
#include "collectives/threads_communicator.h"

namespace strata {

/// What all groups split from the same beginning share. Its mutex guards everything of theirs.
class ThreadWorld {
 public:
  using Lock = std::unique_lock<std::mutex>;

  explicit ThreadWorld(const ThreadCommunicatorOptions& options) : options(options) {}

  /// Keeps the first reason, and wakes all that wait.
  void fail(const std::string& reason);
  /// Waits until `ready`, or a failure. `changed` tells of both. Returns false if neither came in `seconds`.
  bool wait(Lock& lock, std::condition_variable& changed, double seconds, const std::function<bool()>& ready);

  const ThreadCommunicatorOptions options;
  std::mutex mutex;
  std::optional<std::string> failure;

 private:
  std::multiset<std::condition_variable*> awaited_;
};

/// A rank's part in a call of the group.
struct Offer {
  using Work = std::function<void(std::span<const Offer>)>;

  Call call;
  const void* send = nullptr;
  void* receive = nullptr;
  int color = 0, key = 0;
  std::atomic<std::size_t>* sent_bytes =
      nullptr;                 ///< of this rank; the part that reads its memory adds to it
  const Work* work = nullptr;  ///< the rank's part, once all offers are there
};

/// One end of a message.
struct PostedMessage {
  enum class State { posted, taken, done };

  Call call;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  int peer = 0;
  State state = State::posted;
};

/// Methods are called by the thread that is `rank`.
class ThreadGroup {
 public:
  ThreadGroup(std::shared_ptr<ThreadWorld> world, std::vector<int> world_ranks);

  int size() const { return static_cast<int>(world_ranks_.size()); }
  int world_rank(int rank) const { return nth(world_ranks_, rank); }
  ThreadWorld& world() { return *world_; }

  /// Offers. The last that does so calls the work of each with all offers, in the order of the ranks. Returns
  /// when all of it is done.
  void perform(int rank, const Offer& offer);

  /// Exchanges messages that happen together, in any order. Each vector is in the order of the calls.
  void exchange(int rank, std::vector<PostedMessage>& sends, std::vector<PostedMessage>& receives);

  /// In the work of a split: the group of `color`, made by the first of its ranks that asks.
  std::shared_ptr<ThreadGroup> child(int color, const std::vector<int>& ranks);

  /// Ends the rank's call without it having come, as soon as the others gave up.
  [[noreturn]] void never_arrive(int rank, const Call& call);

 private:
  using Lock = ThreadWorld::Lock;

  /// Returns once `ready`; `changed` tells when to look. Throws if the world fails before, or if the
  /// watchdog's time is over; the error names `peers()`.
  void await(Lock& lock, std::condition_variable& changed, int rank, const Call& call,
             const std::function<bool()>& ready, const std::function<std::string()>& peers);
  [[noreturn]] void give_up(const std::string& reason);
  void check_agreement(int rank, const Offer& offer);
  std::string missing_ranks() const;
  std::condition_variable& of_messages(int rank) { return nth(of_messages_, rank); }
  std::deque<PostedMessage*>& queue(int from, int to) {
    return nth(queues_, from * std::ssize(world_ranks_) + to);
  }
  /// Copies what the message's peer has sent.
  void take(Lock& lock, int rank, PostedMessage& message, PostedMessage& sent);
  void withdraw(Lock& lock, int rank, std::vector<PostedMessage>& sends);

  std::shared_ptr<ThreadWorld> world_;
  const std::vector<int> world_ranks_;
  std::vector<Offer> offers_;
  std::vector<bool> arrived_;
  int arrivals_ = 0;
  std::int64_t meetings_ = 0, done_ = 0;              ///< calls for which all came, and those that are done
  std::condition_variable met_;                       ///< a call is done
  std::vector<std::deque<PostedMessage*>> queues_;    ///< posted messages, by sender and receiver
  std::vector<std::condition_variable> of_messages_;  ///< of each rank, to it and from it
  std::map<int, std::shared_ptr<ThreadGroup>> children_;  ///< of the split that is going on
};

/// "rank 2".
std::string rank_name(int rank);

}  // namespace strata
