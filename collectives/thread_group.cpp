#include "collectives/thread_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/nth.h"

namespace strata {

std::string rank_name(int rank) {
  return fmt::format("rank {}", rank);
}

void ThreadWorld::fail(const std::string& reason) {
  if (!failure) failure = reason;
  for (std::condition_variable* changed : awaited_) changed->notify_all();
}

bool ThreadWorld::wait(Lock& lock, std::condition_variable& changed, double seconds,
                       const std::function<bool()>& ready) {
  const auto place = awaited_.insert(&changed);
  const bool in_time =
      changed.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return failure || ready(); });
  awaited_.erase(place);
  return in_time;
}

ThreadGroup::ThreadGroup(std::shared_ptr<ThreadWorld> world, std::vector<int> world_ranks)
    : world_(std::move(world)),
      world_ranks_(std::move(world_ranks)),
      offers_(world_ranks_.size()),
      arrived_(world_ranks_.size()),
      queues_(world_ranks_.size() * world_ranks_.size()),
      of_messages_(world_ranks_.size()) {}

void ThreadGroup::give_up(const std::string& reason) {
  world_->fail(reason);
  throw CommError(reason);
}

void ThreadGroup::await(Lock& lock, std::condition_variable& changed, int rank, const Call& call,
                        const std::function<bool()>& ready, const std::function<std::string()>& peers) {
  const double seconds = world_->options.watchdog_seconds;
  const bool in_time = world_->wait(lock, changed, seconds, ready);
  if (ready()) return;
  const std::string self = rank_name(world_rank(rank));
  if (!in_time) give_up(waited_sentence(call, self, seconds, peers()));
  throw EndedByRankError(ended_sentence(call, self, *world_->failure));
}

void ThreadGroup::never_arrive(int rank, const Call& call) {
  Lock lock(world_->mutex);
  // The others give up after the watchdog's time from when they came, which may be a little later.
  std::condition_variable only_failure;
  world_->wait(lock, only_failure, 10 * world_->options.watchdog_seconds, [] { return false; });
  throw CommError(fmt::format("{} on {} never arrived", describe(call), rank_name(world_rank(rank))));
}

std::string ThreadGroup::missing_ranks() const {
  std::vector<std::string> names;
  for (std::size_t rank = 0; rank < arrived_.size(); ++rank)
    if (!arrived_[rank]) names.push_back(rank_name(world_ranks_[rank]));
  return fmt::format("{}", fmt::join(names, ", "));
}

void ThreadGroup::check_agreement(int rank, const Offer& offer) {
  const auto other = std::find(arrived_.begin(), arrived_.end(), true);
  if (other == arrived_.end()) return;
  const auto first = index_of(arrived_, other);
  const Offer& theirs = offers_[first];
  if (offer.call == theirs.call) return;
  give_up(mismatch_sentence(offer.call, note_of(offer.call, meetings_ + 1), rank_name(world_rank(rank)),
                            note_of(theirs.call, meetings_ + 1), rank_name(world_ranks_[first])));
}

void ThreadGroup::perform(int rank, const Offer& offer) {
  Lock lock(world_->mutex);
  if (world_->failure)
    throw EndedByRankError(ended_sentence(offer.call, rank_name(world_rank(rank)), *world_->failure));
  check_agreement(rank, offer);
  nth(offers_, rank) = offer;
  nth(arrived_, rank) = true;
  const std::int64_t before = meetings_;
  if (++arrivals_ < size()) {
    await(
        lock, met_, rank, offer.call, [&] { return meetings_ != before; }, [&] { return missing_ranks(); });
    met_.wait(lock, [&] { return done_ != before; });  // copying ends by itself
    return;
  }
  arrivals_ = 0;
  arrived_.assign(arrived_.size(), false);
  ++meetings_;
  lock.unlock();
  for (const Offer& each : offers_) (*each.work)(offers_);
  lock.lock();
  children_.clear();
  ++done_;
  lock.unlock();
  met_.notify_all();
}

std::shared_ptr<ThreadGroup> ThreadGroup::child(int color, const std::vector<int>& ranks) {
  const Lock lock(world_->mutex);
  std::shared_ptr<ThreadGroup>& group = children_[color];
  if (!group) group = std::make_shared<ThreadGroup>(world_, ranks);
  return group;
}

void ThreadGroup::take(Lock& lock, int rank, PostedMessage& message, PostedMessage& sent) {
  if (sent.bytes != message.bytes) {
    give_up(fmt::format("{} on {} does not fit {} on {}: both ends of a message have the same length",
                        describe(message.call), rank_name(world_rank(rank)), describe(sent.call),
                        rank_name(world_rank(message.peer))));
  }
  sent.state = PostedMessage::State::taken;
  lock.unlock();
  if (message.bytes > 0) std::memcpy(message.data, sent.data, message.bytes);
  lock.lock();
  message.state = sent.state = PostedMessage::State::done;
  of_messages(message.peer).notify_all();
}

void ThreadGroup::withdraw(Lock& lock, int rank, std::vector<PostedMessage>& sends) {
  for (PostedMessage& message : sends) std::erase(queue(rank, message.peer), &message);
  of_messages(rank).wait(lock, [&] {  // copying ends by itself
    return std::none_of(sends.begin(), sends.end(), [](const PostedMessage& message) {
      return message.state == PostedMessage::State::taken;
    });
  });
}

void ThreadGroup::exchange(int rank, std::vector<PostedMessage>& sends,
                           std::vector<PostedMessage>& receives) {
  Lock lock(world_->mutex);
  for (PostedMessage& message : sends) {
    queue(rank, message.peer).push_back(&message);
    of_messages(message.peer).notify_all();
  }
  const auto is_open = [](const PostedMessage& message) {
    return message.state != PostedMessage::State::done;
  };
  const auto arrived = [&] {
    return std::find_if(receives.begin(), receives.end(), [&](const PostedMessage& message) {
      return is_open(message) && !queue(message.peer, rank).empty();
    });
  };
  const auto await_one = [&](std::vector<PostedMessage>& messages, const std::function<bool()>& ready) {
    const auto open = std::find_if(messages.begin(), messages.end(), is_open);
    if (open == messages.end()) return false;
    await(lock, of_messages(rank), rank, open->call, ready,
          [&] { return rank_name(world_rank(open->peer)); });
    return true;
  };
  try {
    while (await_one(receives, [&] { return arrived() != receives.end(); })) {
      const auto message = arrived();
      std::deque<PostedMessage*>& posted = queue(message->peer, rank);
      PostedMessage& sent = *posted.front();
      posted.pop_front();
      take(lock, rank, *message, sent);
    }
    while (await_one(sends, [&] { return std::none_of(sends.begin(), sends.end(), is_open); })) {
    }
  } catch (const CommError&) {
    withdraw(lock, rank, sends);
    throw;
  }
}

}  // namespace strata
