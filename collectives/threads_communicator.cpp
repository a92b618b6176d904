#include "collectives/threads_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstring>
#include <exception>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/nth.h"
#include "collectives/reduce.h"
#include "collectives/sent_bytes.h"
#include "collectives/thread_group.h"

namespace strata {
namespace {

using Offers = std::span<const Offer>;

const std::byte* bytes_at(const void* data, std::size_t offset) {
  return static_cast<const std::byte*>(data) + offset;
}
std::byte* bytes_at(void* data, std::size_t offset) {
  return static_cast<std::byte*>(data) + offset;
}

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<ThreadGroup> group, int rank) : group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }

  void all_gather(const void* send, void* receive, std::size_t count, Element element) override {
    const std::size_t bytes = count * size_of(element);
    perform({.call = {"all_gather", count, element}, .send = send, .receive = receive}, [&](Offers offers) {
      for (std::size_t r = 0; r < offers.size(); ++r)
        copy_bytes(bytes_at(receive, r * bytes), offers[r].send, bytes);
      count_sent_to_this_rank(offers, bytes);
    });
  }

  void reduce_scatter(const void* send, void* receive, std::size_t count, Element element,
                      ReduceOp op) override {
    const auto part = static_cast<std::size_t>(rank_);
    perform({.call = {"reduce_scatter", count, element, op}, .send = send, .receive = receive},
            [&](Offers offers) { reduce_part(offers, part * count, count, receive); });
  }

  /// Each rank reduces its part and hands it to all: it alone touches that part of anybody's memory, in place
  /// or not. What all reduce for themselves replaces nothing before all are done.
  void all_reduce(const void* send, void* receive, std::size_t count, Element element, ReduceOp op) override {
    const auto ranks = static_cast<std::size_t>(size());
    const auto sum = share_sum(count, size_of(element), ranks);
    const std::size_t first = static_cast<std::size_t>(rank_) * sum.part, shared = ranks * sum.part;
    rest_.resize(sum.rest * size_of(element));
    perform({.call = {"all_reduce", count, element, op}, .send = send, .receive = receive},
            [&](Offers offers) {
              const std::size_t offset = first * size_of(element), bytes = sum.part * size_of(element);
              reduce_part(offers, first, sum.part, bytes_at(receive, offset));
              for (const Offer& offer : offers)
                copy_bytes(bytes_at(offer.receive, offset), bytes_at(receive, offset), bytes);
              sent_bytes_ += (ranks - 1) * bytes;
              reduce_part(offers, shared, sum.rest, rest_.data());
            });
    copy_bytes(bytes_at(receive, shared * size_of(element)), rest_.data(), rest_.size());
  }

  void broadcast(void* data, std::size_t count, Element element, int root) override {
    perform({.call = {"broadcast", count, element, {}, root}, .receive = data}, [&](Offers offers) {
      const std::size_t bytes = count * size_of(element);
      const Offer& from = nth(offers, root);
      copy_bytes(data, from.receive, bytes);
      if (rank_ != root) *from.sent_bytes += bytes;
    });
  }

  void all_to_all(const void* send, void* receive, std::size_t count, Element element) override {
    const std::size_t bytes = count * size_of(element);
    const auto part = static_cast<std::size_t>(rank_);
    perform({.call = {"all_to_all", count, element}, .send = send, .receive = receive}, [&](Offers offers) {
      for (std::size_t r = 0; r < offers.size(); ++r)
        copy_bytes(bytes_at(receive, r * bytes), bytes_at(offers[r].send, part * bytes), bytes);
      count_sent_to_this_rank(offers, bytes);
    });
  }

  void send(const void* data, std::size_t count, Element element, int peer) override {
    // Only read; the two ends of a message share a type.
    sends_.push_back(message("send", const_cast<void*>(data), count, element, peer));
    if (!in_group_) exchange(sends_.back().call);
  }
  void receive(void* data, std::size_t count, Element element, int peer) override {
    receives_.push_back(message("receive", data, count, element, peer));
    if (!in_group_) exchange(receives_.back().call);
  }
  void begin_group() override {
    assert(!in_group_);
    in_group_ = true;
  }
  void end_group() override {
    assert(in_group_);
    in_group_ = false;
    exchange({.operation = "group"});
  }

  std::unique_ptr<Communicator> split(int color, int key) override {
    std::unique_ptr<Communicator> result;
    perform({.call = {.operation = "split"}, .color = color, .key = key}, [&](Offers offers) {
      if (color < 0) return;
      std::vector<int> members;
      for (int r = 0; r < size(); ++r)
        if (nth(offers, r).color == color) members.push_back(r);
      std::stable_sort(members.begin(), members.end(),
                       [&](int left, int right) { return nth(offers, left).key < nth(offers, right).key; });
      const auto place = std::find(members.begin(), members.end(), rank_) - members.begin();
      for (int& member : members) member = group_->world_rank(member);
      result = std::make_unique<ThreadCommunicator>(group_->child(color, members), static_cast<int>(place));
    });
    return result;
  }

  std::size_t sent_bytes() const override { return sent_bytes_; }

  std::optional<std::string> failure() const override {
    const std::lock_guard lock(group_->world().mutex);
    return group_->world().failure;
  }
  void abort(const std::string& reason) override {
    const std::lock_guard lock(group_->world().mutex);
    group_->world().fail(fmt::format("{} aborted: {}", self(), reason));
  }

 private:
  std::string self() const { return rank_name(group_->world_rank(rank_)); }

  void perform(Offer offer, const Offer::Work& work) {
    begin(offer.call);
    offer.sent_bytes = &sent_bytes_;
    offer.work = &work;
    group_->perform(rank_, offer);
  }

  void exchange(const Call& call) {
    // Whatever happens, the messages are not made again.
    std::vector<PostedMessage> sends = std::exchange(sends_, {}), receives = std::exchange(receives_, {});
    begin(call);
    group_->exchange(rank_, sends, receives);
    for (const PostedMessage& message : sends)
      if (message.peer != rank_) sent_bytes_ += message.bytes;
  }

  /// Lets the faults have their way with the call.
  void begin(const Call& call) {
    const std::int64_t index = calls_++;
    CommFaults* faults = group_->world().options.faults;
    if (!faults) return;
    try {
      if (faults->before({group_->world_rank(rank_), call.operation, index}) == CommFaults::Fate::arrives)
        return;
    } catch (const std::exception& error) {
      const std::lock_guard lock(group_->world().mutex);
      group_->world().fail(fmt::format("{} failed in {}: {}", self(), describe(call), error.what()));
      throw;
    }
    group_->never_arrive(rank_, call);
  }

  PostedMessage message(std::string_view operation, void* data, std::size_t count, Element element,
                        int peer) const {
    assert(peer >= 0 && peer < size());
    return {.call = {operation, count, element},
            .data = static_cast<std::byte*>(data),
            .bytes = count * size_of(element),
            .peer = peer};
  }

  /// Reduces `count` elements of all ranks' data from element `first` on.
  void reduce_part(Offers offers, std::size_t first, std::size_t count, void* to) const {
    const Offer& any = offers.front();
    std::vector<const void*> sources;
    for (const Offer& offer : offers)
      sources.push_back(bytes_at(offer.send, first * size_of(any.call.element)));
    reduce(sources, to, count, any.call.element, any.call.op.value());
    count_sent_to_this_rank(offers, count * size_of(any.call.element));
  }

  /// From each of the others.
  void count_sent_to_this_rank(Offers offers, std::size_t bytes) const {
    for (std::size_t r = 0; r < offers.size(); ++r)
      if (r != static_cast<std::size_t>(rank_)) *offers[r].sent_bytes += bytes;
  }

  std::shared_ptr<ThreadGroup> group_;
  int rank_;
  std::int64_t calls_ = 0;
  bool in_group_ = false;
  std::vector<PostedMessage> sends_, receives_;
  std::vector<std::byte> rest_;  ///< of a sum, until all ranks have read what it overwrites
  std::atomic<std::size_t> sent_bytes_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_thread_communicators(
    int ranks, const ThreadCommunicatorOptions& options) {
  assert(ranks >= 1);
  auto world_ranks = sized<std::vector<int>>(ranks);
  std::iota(world_ranks.begin(), world_ranks.end(), 0);
  const auto group = std::make_shared<ThreadGroup>(std::make_shared<ThreadWorld>(options), world_ranks);
  std::vector<std::unique_ptr<Communicator>> result;
  result.reserve(world_ranks.size());
  for (int rank = 0; rank < ranks; ++rank)
    result.push_back(std::make_unique<ThreadCommunicator>(group, rank));
  return result;
}

}  // namespace strata
