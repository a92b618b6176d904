#include "collectives/mpi_progress.h"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>

#include "base/at_work.h"
#include "base/error.h"
#include "base/nth.h"
#include "collectives/mpi_heartbeat.h"
#include "collectives/process_memory.h"

namespace strata {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::duration;

/// How long after the last advance the thread polls at once, and then yields to others; after that it sleeps
/// between polls.
constexpr auto kSpinning = std::chrono::microseconds(20);
constexpr auto kYielding = std::chrono::microseconds(200);
constexpr auto kSleep = std::chrono::microseconds(50);
/// With nothing under way, it looks as often whether another rank has failed.
constexpr auto kIdle = std::chrono::milliseconds(50);
/// After a failure, messages that have begun get this long to end, and the ranks to meet.
constexpr double kGraceSeconds = 5;

/// How much is read from another process before a look at whether the ranks still want it.
constexpr std::size_t kReadAtOnce = std::size_t{4} << 20;

constexpr std::size_t kReasonBytes = 2048;
using Reason = std::array<char, kReasonBytes>;

/// Whether `done` within the time; for the end, when nothing is in a hurry.
bool poll(const std::function<bool()>& done, double seconds) {
  const auto end = Clock::now() + duration<double>(seconds);
  while (!done()) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(kSleep);
  }
  return true;
}

void check_mpi(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw CommError(
      fmt::format("{}: {}", what, std::string_view(text.data(), static_cast<std::size_t>(length))));
}

}  // namespace

struct MpiProgress::Requests {
  bool owns_mpi = false;
  MPI_Comm messages_comm = MPI_COMM_NULL, control_comm = MPI_COMM_NULL;
  std::vector<MPI_Request> requests;
  std::vector<MpiMessage*> messages;  ///< of the requests; null if the owner has left
  std::vector<int> indices;
  std::vector<MPI_Status> statuses;
  Reason heard{};                          ///< why another rank failed,
  MPI_Request hearing = MPI_REQUEST_NULL;  ///< once this is done
  std::optional<MpiHeartbeat> heartbeat;

  void start(MpiMessage& message) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int bytes = static_cast<int>(message.bytes);
    const int code =
        message.direction == MpiMessage::Direction::send
            ? MPI_Isend(message.data, bytes, MPI_BYTE, message.peer, message.tag, messages_comm, &request)
            : MPI_Irecv(message.data, bytes, MPI_BYTE, message.peer, message.tag, messages_comm, &request);
    check_mpi(code, "MPI does not start a message");
    requests.push_back(request);
    messages.push_back(&message);
  }

  /// Removes what is done, indices in ascending order.
  void remove(std::size_t done) {
    std::sort(indices.begin(), indices.begin() + static_cast<std::ptrdiff_t>(done));
    for (std::size_t i = done; i-- > 0;) {
      const int index = indices[i];
      nth(requests, index) = requests.back();
      nth(messages, index) = messages.back();
      requests.pop_back();
      messages.pop_back();
    }
  }
};

MpiProgress::MpiProgress(double watchdog_seconds, bool may_read_memory)
    : watchdog_seconds_(watchdog_seconds), reads_memory_(may_read_memory) {
  thread_ = std::thread([this] { serve(); });
  Lock lock(mutex_);
  // What MPI's start waits for is the launcher's to watch.
  changed_.wait(lock, [&] { return started_ || settled_; });
  if (settled_) {
    lock.unlock();
    thread_.join();
    throw CommError(*failure_);
  }
}

MpiProgress::~MpiProgress() {
  {
    const Lock lock(mutex_);
    ending_ = true;
    attention_ = true;
    work_.notify_one();
  }
  thread_.join();
}

std::string MpiProgress::name_of(int rank) const {
  return fmt::format("rank {} ({})", rank, nth(hosts_, rank));
}

void MpiProgress::post(MpiMessage& message) {
  const Lock lock(mutex_);
  message.state = MpiMessage::State::under_way;
  posted_.push_back(&message);
  attention_ = true;
  work_.notify_one();
}

void MpiProgress::wait(const MpiMessage& message, const Call& call) {
  Lock lock(mutex_);
  const double watchdog_seconds = watchdog_seconds_;
  const auto under_way = [&] { return message.state == MpiMessage::State::under_way; };
  const bool in_time =
      wait_while_others_work(lock, watchdog_seconds, [&] { return !under_way() || settled_; });
  if (message.state == MpiMessage::State::done) return;
  const std::string self = name_of(rank_), peer = name_of(message.peer);
  if (!in_time) give_up(lock, call, waited_sentence(call, self, watchdog_seconds, peer));
  if (under_way()) throw EndedByRankError(ended_sentence(call, self, *failure_));
  give_up(lock, call,
          fmt::format("{} on {} does not fit what {} sends: both ends of a message have the same length",
                      describe(call), self, peer));
}

/// Whether `done` before the time has passed in which no rank was heard to be at work.
bool MpiProgress::wait_while_others_work(Lock& lock, double seconds, const std::function<bool()>& done) {
  constexpr double kForever = 1e8;  // seconds; more overflows the clock
  const AtWork::Pause pause;
  const auto begin = Clock::now();
  const auto end = [&] {
    return std::max(begin, heard_work_.load()) +
           std::chrono::duration_cast<Clock::duration>(duration<double>(std::min(seconds, kForever)));
  };
  while (!done()) {
    if (changed_.wait_until(lock, end()) == std::cv_status::timeout && Clock::now() >= end()) return done();
  }
  return true;
}

/// The thread ends this wait: it settles, or ends the process.
void MpiProgress::give_up(Lock& lock, const Call& call, const std::string& reason) {
  const bool is_first = !failure_;
  fail_locked(reason, true);
  changed_.wait(lock, [&] { return settled_; });
  if (is_first) throw CommError(reason);
  throw EndedByRankError(ended_sentence(call, name_of(rank_), *failure_));
}

void MpiProgress::give_up(const Call& call, const std::string& reason) {
  Lock lock(mutex_);
  give_up(lock, call, reason);
}

bool MpiProgress::read_each_other(std::span<const int> ranks) const {
  return reads_memory_ && std::all_of(ranks.begin(), ranks.end(),
                                      [&](int rank) { return nth(hosts_, rank) == nth(hosts_, rank_); });
}

void MpiProgress::read(int rank, std::uintptr_t from, std::byte* to, std::size_t bytes, const Call& call) {
  for (std::size_t done = 0; done < bytes; done += kReadAtOnce) {
    begin_read(call);
    std::optional<std::string> refusal;
    try {
      read_memory(nth(processes_, rank), from + done, to + done, std::min(kReadAtOnce, bytes - done));
    } catch (const IoError& error) {
      refusal = error.what();
    }
    end_read();
    if (!refusal) continue;
    give_up(call, fmt::format("{} on {} failed at {}: {}", describe(call), name_of(rank_), name_of(rank),
                              *refusal));
  }
}

/// After a failure no copy begins, and the thread waits for those that have: the others' memory is theirs.
void MpiProgress::begin_read(const Call& call) {
  Lock lock(mutex_);
  if (failure_) give_up(lock, call, *failure_);
  ++readers_;
}

void MpiProgress::end_read() {
  const Lock lock(mutex_);
  --readers_;
}

bool MpiProgress::is_reading() const {
  const Lock lock(mutex_);
  return readers_ > 0;
}

bool MpiProgress::started() const {
  const Lock lock(mutex_);
  return started_;
}

void MpiProgress::check(const Call& call) const {
  const Lock lock(mutex_);
  if (failure_) throw EndedByRankError(ended_sentence(call, name_of(rank_), *failure_));
}

std::optional<std::string> MpiProgress::failure() const {
  const Lock lock(mutex_);
  return failure_;
}

void MpiProgress::fail(const std::string& reason) {
  const Lock lock(mutex_);
  fail_locked(reason, true);
}

void MpiProgress::fail_locked(const std::string& reason, bool announce) {
  if (failure_) return;
  failure_ = reason;
  announce_ = announce;
  attention_ = true;
  work_.notify_one();
}

int MpiProgress::reserve_tags(int count) {
  const int first = next_tag_.fetch_add(count);
  // Each process gives away tags of its own, so that no two agree by accident.
  const std::int64_t last = (std::int64_t{first} + count) * size() + rank_;
  if (last > largest_tag_)
    throw CommError(fmt::format("MPI has no tags left for another group on {}", name_of(rank_)));
  return first * size() + rank_;
}

void MpiProgress::end_all(int status) {
  MPI_Abort(MPI_COMM_WORLD, status);
  std::abort();
}

// --- the thread

void MpiProgress::serve() {
  Requests requests;
  try {
    start_mpi(requests);
    run(requests);
  } catch (const CommError& error) {
    const Lock lock(mutex_);
    fail_locked(error.what(), true);
  }
  if (failure()) {
    settle_or_end(requests);
    // What was sent and is left has nobody who would receive it, and soon no owner.
    std::ranges::fill(requests.messages, nullptr);
    const Lock lock(mutex_);
    settled_ = true;
    changed_.notify_all();
  }
  leave(requests);
}

void MpiProgress::start_mpi(Requests& requests) {
  int runs = 0, provided = 0;
  MPI_Initialized(&runs);
  requests.owns_mpi = runs == 0;
  if (requests.owns_mpi)
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI does not start");
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &requests.messages_comm), "MPI makes no communicator");
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &requests.control_comm), "MPI makes no communicator");
  MPI_Comm_set_errhandler(requests.messages_comm, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(requests.control_comm, MPI_ERRORS_RETURN);
  int size = 0, has_tag = 0;
  const int* tag = nullptr;
  MPI_Comm_rank(requests.control_comm, &rank_);
  MPI_Comm_size(requests.control_comm, &size);
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag, &has_tag);
  largest_tag_ = has_tag != 0 ? *tag : 32767;  // the least that the standard allows

  resize(hosts_, size);
  introduce(requests);
  check_mpi(MPI_Irecv(requests.heard.data(), kReasonBytes, MPI_CHAR, MPI_ANY_SOURCE, 0, requests.control_comm,
                      &requests.hearing),
            "MPI does not listen for failures");
  requests.heartbeat.emplace(requests.control_comm, heard_work_);
  const Lock lock(mutex_);
  started_ = true;
  changed_.notify_all();
}

/// Tells all ranks of each other's hosts, and whether they can read the memory of those on their own.
void MpiProgress::introduce(Requests& requests) {
  struct Introduction {
    std::array<char, MPI_MAX_PROCESSOR_NAME> host;
    ProcessMark mark;
  };
  Introduction own = {.host = {}, .mark = mark_of_this_process()};
  int length = 0;
  MPI_Get_processor_name(own.host.data(), &length);
  std::vector<Introduction> all(hosts_.size());
  check_mpi(
      MPI_Allgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE, requests.control_comm),
      "MPI does not gather the names of the hosts");
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    hosts_[rank] = all[rank].host.data();
    processes_.push_back(all[rank].mark.process);
    if (all[rank].host == own.host) reads_memory_ = reads_memory_ && can_read(all[rank].mark);
  }
  int reads = reads_memory_ ? 1 : 0;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &reads, 1, MPI_INT, MPI_MIN, requests.control_comm),
            "MPI does not let the ranks agree");
  reads_memory_ = reads != 0;
}

void MpiProgress::run(Requests& requests) {
  std::vector<MpiMessage*> posted;
  auto last_advance = Clock::now();
  while (true) {
    if (requests.messages.empty()) wait_for_work();
    if (attention_.exchange(false)) {
      const Lock lock(mutex_);
      posted.swap(posted_);
      if (failure_ || (ending_ && requests.messages.empty() && posted.empty())) return;
    }
    for (MpiMessage* message : posted) requests.start(*message);
    const bool advanced = test(requests) || !posted.empty();
    posted.clear();
    const auto now = Clock::now();
    if (advanced) {
      last_advance = now;
      continue;
    }
    hear(requests);
    if (now - last_advance > kYielding) {
      std::this_thread::sleep_for(kSleep);
    } else if (now - last_advance > kSpinning) {
      std::this_thread::yield();
    }
  }
}

void MpiProgress::wait_for_work() {
  Lock lock(mutex_);
  work_.wait_for(lock, kIdle, [&] { return attention_.load(); });
}

void MpiProgress::hear(Requests& requests) {
  constexpr double kBeats = 8;  // in the watchdog's time
  requests.heartbeat->beat(watchdog_seconds_ / kBeats);
  int done = 0;
  check_mpi(MPI_Test(&requests.hearing, &done, MPI_STATUS_IGNORE), "MPI does not listen for failures");
  if (done == 0) return;
  const Lock lock(mutex_);
  fail_locked(requests.heard.data(), false);
}

/// Whether anything was done.
bool MpiProgress::test(Requests& requests) {
  const std::size_t count = requests.requests.size();
  if (count == 0) return false;
  requests.indices.resize(count);
  requests.statuses.resize(count);
  int done = 0;
  const int code = MPI_Testsome(static_cast<int>(count), requests.requests.data(), &done,
                                requests.indices.data(), requests.statuses.data());
  if (code != MPI_ERR_IN_STATUS) check_mpi(code, "MPI does not poll");
  if (done <= 0) return false;
  const Lock lock(mutex_);
  for (std::size_t i = 0; i < static_cast<std::size_t>(done); ++i) {
    const MPI_Status& status = requests.statuses[i];
    MpiMessage* const owned = nth(requests.messages, requests.indices[i]);
    if (owned == nullptr) continue;
    MpiMessage& message = *owned;
    bool fits = code == MPI_SUCCESS || status.MPI_ERROR == MPI_SUCCESS;
    if (message.direction == MpiMessage::Direction::receive) {
      int cancelled = 0, received = 0;
      MPI_Test_cancelled(&status, &cancelled);
      if (cancelled != 0) continue;
      MPI_Get_count(&status, MPI_BYTE, &received);
      fits = fits && static_cast<std::size_t>(received) == message.bytes;
    }
    message.state = fits ? MpiMessage::State::done : MpiMessage::State::wrong_length;
  }
  changed_.notify_all();
  requests.remove(static_cast<std::size_t>(done));
  return true;
}

void MpiProgress::settle_or_end(Requests& requests) {
  if (!started()) return;  // nobody has posted anything
  bool settled = false;
  try {
    settled = settle(requests);
  } catch (const CommError&) {
  }
  if (settled) return;
  std::cerr << fmt::format(
      "strata: {}; {} ends all ranks at once, since not all have let go of each other's memory within {:g} "
      "s\n",
      failure().value(), name_of(rank_), kGraceSeconds);
  end_all(1);
}

/// Tells the others why, takes back what they have not sent, and lets the rest and this process's readers
/// finish. When all ranks have done so, nothing is under way that touches the memory of a call; whether they
/// have.
bool MpiProgress::settle(Requests& requests) {
  Reason reason{};
  bool announce = false;
  {
    const Lock lock(mutex_);
    failure_->copy(reason.data(), reason.size() - 1);
    announce = announce_;
  }
  std::vector<MPI_Request> notices;
  for (int rank = 0; announce && rank < size(); ++rank) {
    if (rank == rank_) continue;
    notices.emplace_back();
    MPI_Isend(reason.data(), kReasonBytes, MPI_CHAR, rank, 0, requests.control_comm, &notices.back());
  }
  const auto is_receive = [](const MpiMessage* message) {
    return message->direction == MpiMessage::Direction::receive;
  };
  for (std::size_t i = 0; i < requests.messages.size(); ++i)
    if (is_receive(requests.messages[i])) MPI_Cancel(&requests.requests[i]);
  const bool settled = poll(
      [&] {
        test(requests);
        int told = 0;
        MPI_Testall(static_cast<int>(notices.size()), notices.data(), &told, MPI_STATUSES_IGNORE);
        return told != 0 && !is_reading() &&
               std::none_of(requests.messages.begin(), requests.messages.end(), is_receive);
      },
      kGraceSeconds);
  return settled && meet(requests, kGraceSeconds);
}

/// Whether all ranks come in time.
bool MpiProgress::meet(Requests& requests, double seconds) {
  MPI_Request all = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(requests.control_comm, &all), "MPI does not let the ranks meet");
  return poll(
      [&] {
        int done = 0;
        check_mpi(MPI_Test(&all, &done, MPI_STATUS_IGNORE), "MPI does not let the ranks meet");
        test(requests);  // what another rank may still have to receive from here
        return done != 0;
      },
      seconds);
}

/// MPI_Finalize waits for all ranks without a limit, so it is called only when they are there. They meet
/// twice: the first time when each has ended or settled, for one may fail when others have ended, and then to
/// leave.
void MpiProgress::leave(Requests& requests) {
  {
    Lock lock(mutex_);
    work_.wait(lock, [&] { return ending_ || !started_; });
    if (!started_) return;
  }
  try {
    if (!failure() && !meet(requests, watchdog_seconds_)) return;
    // All were alive when they met after a failure; one may still finish what it computes before it says why.
    if (!meet(requests, watchdog_seconds_)) return;
  } catch (const CommError&) {
    return;  // the launcher ends the others when this process is gone
  }
  if (requests.hearing != MPI_REQUEST_NULL) {
    MPI_Cancel(&requests.hearing);
    MPI_Wait(&requests.hearing, MPI_STATUS_IGNORE);
  }
  if (requests.heartbeat) requests.heartbeat->end();
  if (requests.owns_mpi) MPI_Finalize();
}

}  // namespace strata
