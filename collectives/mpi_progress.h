// The thread that owns MPI: it starts the messages that other threads post, and polls while any is under way,
// since MPI makes no progress of its own. It takes little of a core that others need: what does not advance
// is polled ever more rarely.
//
// Failure. The first reason wins and goes to all ranks. The thread then lets what has begun arrive, takes
// back the rest, lets this process's readers of other ranks' memory finish, and meets the other ranks, which
// do the same. Only after that do the waits end: nobody touches memory whose owner was told that the call
// failed. If the ranks do not meet, one may be stopped with a message half way, so no call returns: the
// thread says the reason and ends all processes.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "collectives/call.h"

namespace strata {

/// A message to or from another process. It and its memory stay where they are from post() until wait() has
/// returned or thrown.
struct MpiMessage {
  enum class Direction : std::uint8_t { send, receive };
  enum class State : std::uint8_t { under_way, done, wrong_length };
  /// MPI counts with int; this leaves it room.
  static constexpr std::size_t kMostBytes = std::size_t{512} << 20;

  Direction direction = Direction::send;
  void* data = nullptr;
  std::size_t bytes = 0;
  int peer = 0;  ///< among all processes
  int tag = 0;   ///< messages of a pair with equal tags arrive in the order in which they were posted
  State state = State::under_way;
};

/// Any thread may call.
class MpiProgress {
 public:
  MpiProgress(double watchdog_seconds, bool may_read_memory);
  ~MpiProgress();
  MpiProgress(const MpiProgress&) = delete;
  MpiProgress& operator=(const MpiProgress&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(hosts_.size()); }
  /// "rank 2 (node7)".
  std::string name_of(int rank) const;

  /// How long wait() waits, from its next call on.
  void set_watchdog(double seconds) { watchdog_seconds_ = seconds; }

  void post(MpiMessage& message);
  /// Throws CommError if the message does not come while no rank is at work, or if all has failed;
  /// `call` is what it belongs to.
  void wait(const MpiMessage& message, const Call& call);

  /// Whether every rank of the world can read the memory of those on its host; and whether these are all on
  /// one, too.
  bool reads_memory() const { return reads_memory_; }
  bool read_each_other(std::span<const int> ranks) const;
  /// Copies from the memory of a rank on this host. Throws CommError, like a wait, if that fails.
  void read(int rank, std::uintptr_t from, std::byte* to, std::size_t bytes, const Call& call);

  /// Throws CommError if all has failed.
  void check(const Call& call) const;
  std::optional<std::string> failure() const;
  /// Ends the calls of all processes.
  void fail(const std::string& reason);
  /// Ends the calls of all processes, and throws CommError once no message's memory is touched any more: with
  /// this reason, or that of a rank which was first.
  [[noreturn]] void give_up(const Call& call, const std::string& reason);

  /// `count` tags that no process gives away again; the first of them, and the next are this much apart.
  int reserve_tags(int count);
  int tag_stride() const { return size(); }

  [[noreturn]] void end_all(int status);

 private:
  struct Requests;  // what MPI knows
  using Lock = std::unique_lock<std::mutex>;

  void serve();
  void start_mpi(Requests& requests);
  void run(Requests& requests);
  void wait_for_work();
  void hear(Requests& requests);
  bool test(Requests& requests);
  bool started() const;
  void settle_or_end(Requests& requests);
  bool settle(Requests& requests);
  bool meet(Requests& requests, double seconds);
  void introduce(Requests& requests);
  void leave(Requests& requests);
  bool wait_while_others_work(Lock& lock, double seconds, const std::function<bool()>& done);
  [[noreturn]] void give_up(Lock& lock, const Call& call, const std::string& reason);
  void fail_locked(const std::string& reason, bool announce);
  void begin_read(const Call& call);
  void end_read();
  bool is_reading() const;

  std::atomic<double> watchdog_seconds_;
  std::atomic<std::chrono::steady_clock::time_point>
      heard_work_{};  ///< of any rank: collectives/mpi_heartbeat.h
  int rank_ = 0;
  int largest_tag_ = 0;
  std::vector<std::string> hosts_;
  std::vector<pid_t> processes_;
  bool reads_memory_;  ///< of all ranks of its host, like every other rank
  std::atomic<int> next_tag_ = 1;

  mutable std::mutex mutex_;
  std::condition_variable work_;         ///< for the thread: something was posted, failed or is to end
  std::condition_variable changed_;      ///< for all others: a message is done, or nothing will be any more
  std::atomic<bool> attention_ = false;  ///< whether the thread has to look at what follows
  std::vector<MpiMessage*> posted_;
  std::optional<std::string> failure_;
  bool announce_ = false;  ///< the failure began here: the others have to be told
  bool started_ = false;
  int readers_ = 0;       ///< threads that copy from another rank's memory
  bool settled_ = false;  ///< after a failure: no rank touches the memory of any call any more
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace strata
