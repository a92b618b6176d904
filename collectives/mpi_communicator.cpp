#include "collectives/mpi_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "base/nth.h"
#include "collectives/mpi_world.h"
#include "collectives/reduce.h"
#include "collectives/sent_bytes.h"

namespace strata {
namespace {

/// What a message of a long call carries, and how many such follow each other before the first is waited for.
constexpr std::size_t kSegment = std::size_t{512} << 10;
constexpr std::size_t kDepth = 8;
/// What is gathered goes straight to its place, in messages as long as leave `kDepth` of them.
constexpr std::size_t kLongestSegment = std::size_t{4} << 20;
/// What is folded waits in memory that should stay in the caches.
constexpr std::size_t kFoldSegment = std::size_t{256} << 10;
/// Pieces that wait to be folded take no more memory than this.
constexpr std::size_t kScratch = std::size_t{8} << 20;

const std::byte* bytes_of(const void* data) {
  return static_cast<const std::byte*>(data);
}
std::byte* bytes_of(void* data) {
  return static_cast<std::byte*>(data);
}

/// From here on a result does not fit the private caches.
constexpr std::size_t kStreamFrom = std::size_t{4} << 20;

Stores stores_for(std::size_t bytes) {
  return bytes < kStreamFrom ? Stores::through_caches : Stores::past_caches;
}

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

constexpr std::size_t pieces(std::size_t total, std::size_t piece) {
  return (total + piece - 1) / piece;
}

/// Bytes of a part's piece number `index`.
std::size_t piece_size(std::size_t part, std::size_t piece, std::size_t index) {
  return part > index * piece ? std::min(piece, part - index * piece) : 0;
}

}  // namespace

MpiCommunicator::MpiCommunicator(std::shared_ptr<MpiProgress> progress, std::vector<int> members, int tag)
    : progress_(std::move(progress)),
      members_(std::move(members)),
      tag_(tag),
      peers_(members_.size()),
      slots_(kDepth),
      reads_memory_(progress_->read_each_other(members_)) {
  rank_ = static_cast<int>(std::find(members_.begin(), members_.end(), progress_->rank()) - members_.begin());
  for (auto& slot : slots_) slot.reserve(4 * members_.size());
}

void MpiCommunicator::begin(const Call& call) {
  progress_->check(call);
  call_ = call;
}

void MpiCommunicator::begin_collective(const Call& call) {
  begin(call);
  note_ = note_of(call, ++number_);
  for (Peer& peer : peers_) peer.told = peer.hears = false;
}

MpiMessage MpiCommunicator::message(Direction direction, const std::byte* data, std::size_t bytes,
                                    int peer) const {
  // What is sent is only read; the two directions share a type.
  return {.direction = direction,
          .data = const_cast<std::byte*>(data),
          .bytes = bytes,
          .peer = nth(members_, peer),
          .tag = tag_};
}

/// What a rank sends to itself reaches no other.
void MpiCommunicator::post(MpiMessage& message) {
  if (message.direction == Direction::send && message.peer != progress_->rank()) sent_bytes_ += message.bytes;
  progress_->post(message);
}

/// Does nothing if there are no bytes: the other end knows.
void MpiCommunicator::post(std::size_t round, Direction direction, const std::byte* data, std::size_t bytes,
                           int peer) {
  if (bytes == 0) return;
  const Peer& other = nth(peers_, peer);
  const bool waits = direction == Direction::receive && !other.hears;
  post_note(round, direction, peer);
  std::vector<Posted>& slot = slots_[round % kDepth];
  assert(slot.size() < slot.capacity());
  slot.push_back({.message = message(direction, data, bytes, peer), .is_posted = !waits});
  if (!waits) post(slot.back().message);
}

/// Ahead of the call's first data to or from the peer. Notes are not counted as sent: they are what MPI's
/// headers are to messages.
void MpiCommunicator::post_note(std::size_t round, Direction direction, int peer) {
  Peer& other = nth(peers_, peer);
  const bool sends = direction == Direction::send;
  if (std::exchange(sends ? other.told : other.hears, true)) return;
  std::vector<Posted>& slot = slots_[round % kDepth];
  assert(slot.size() < slot.capacity());
  slot.push_back({.message = message(direction, bytes_of(sends ? &note_ : &other.heard), sizeof(Note), peer),
                  .heard_from = sends ? -1 : peer,
                  .is_posted = true});
  progress_->post(slot.back().message);
}

/// Receives data only from peers that make the same call: if a message is longer than its place, Open MPI
/// may write past the end.
void MpiCommunicator::hear_notes(std::size_t round) {
  for (Posted& each : slots_[round % kDepth]) {
    if (each.heard_from >= 0) {
      progress_->wait(each.message, call_);
      check(nth(peers_, each.heard_from).heard, note_, each.heard_from);
    }
    if (!std::exchange(each.is_posted, true)) post(each.message);
  }
}

void MpiCommunicator::check(const Note& heard, const Note& own, int peer) {
  if (belong_together(heard, own)) return;
  progress_->give_up(call_, mismatch_sentence(call_, own, progress_->name_of(progress_->rank()), heard,
                                              progress_->name_of(nth(members_, peer))));
}

/// Posts the messages of up to `depth` rounds ahead of the one whose messages are waited for and which is
/// then finished.
void MpiCommunicator::run_rounds(std::size_t rounds, std::size_t depth,
                                 const std::function<void(std::size_t)>& post_round,
                                 const std::function<void(std::size_t)>& finish_round) {
  for (auto& slot : slots_) slot.clear();
  for (std::size_t round = 0; round < rounds + depth; ++round) {
    if (round >= depth) {
      std::vector<Posted>& slot = slots_[(round - depth) % kDepth];
      for (const Posted& each : slot) progress_->wait(each.message, call_);
      slot.clear();
      finish_round(round - depth);
    }
    if (round >= rounds) continue;
    post_round(round);
    hear_notes(round);
  }
}

// --- reading the memory of ranks on the same host

/// Notes to and from all other ranks.
std::vector<Note> MpiCommunicator::exchange_notes(const std::vector<Note>& notes) {
  std::vector<Note> received(notes);
  std::vector<MpiMessage> messages;
  for (int step = 1; step < size(); ++step) {
    const int from = rank_after(size() - step), to = rank_after(step);
    messages.push_back(message(Direction::receive, bytes_of(&nth(received, from)), sizeof(Note), from));
    messages.push_back(message(Direction::send, bytes_of(&nth(notes, to)), sizeof(Note), to));
  }
  for (MpiMessage& each : messages) progress_->post(each);
  for (const MpiMessage& each : messages) progress_->wait(each, call_);
  for (int rank = 0; rank < size(); ++rank) check(nth(received, rank), note_, rank);
  return received;
}

/// Lets each of the others read `bytes` bytes of `data`, until close().
void MpiCommunicator::open(const std::byte* data, std::size_t bytes) {
  read_.assign(members_.size(), note_);
  Note own = note_;
  own.address = reinterpret_cast<std::uintptr_t>(data);
  own.bytes = bytes;
  opened_ = exchange_notes(std::vector<Note>(members_.size(), own));
  for (Peer& peer : peers_) peer.told = peer.hears = true;
}

void MpiCommunicator::read(int rank, std::size_t offset, std::byte* to, std::size_t bytes) {
  progress_->read(nth(members_, rank), nth(opened_, rank).address + offset, to, bytes, call_);
  nth(read_, rank).bytes += bytes;
}

/// Returns when nobody reads the memory of anybody any more.
void MpiCommunicator::close() {
  for (const Note& others : exchange_notes(read_)) sent_bytes_ += others.bytes;
}

// --- gathering

void MpiCommunicator::gather(const std::byte* own, std::byte* data, std::size_t part) {
  const auto place_of = [&](int rank) { return data + static_cast<std::size_t>(rank) * part; };
  if (part * members_.size() <= kSmallCall) {
    run_rounds(
        1, 1,
        [&](std::size_t round) {
          for (int step = 1; step < size(); ++step) {
            const int from = rank_after(size() - step);
            post(round, Direction::receive, place_of(from), part, from);
            post(round, Direction::send, own, part, rank_after(step));
          }
        },
        [&](std::size_t) { copy_bytes(place_of(rank_), own, part); });
    return;
  }
  if (reads_memory_) {
    open(own, part);
    copy_bytes(place_of(rank_), own, part);
    for (int step = 1; step < size(); ++step) read(rank_after(step), 0, place_of(rank_after(step)), part);
    return close();
  }
  // A ring: in each step a rank passes on what came in the step before, piece by piece, beginning with its
  // own.
  const std::size_t segment = std::clamp(part / kDepth, kSegment, kLongestSegment);
  const std::size_t steps = pieces(part, segment);
  const auto post_piece = [&](std::size_t round, Direction direction, const std::byte* from, int peer) {
    const std::size_t piece = round % steps;
    post(round, direction, from + piece * segment, piece_size(part, segment, piece), peer);
  };
  run_rounds(
      steps * static_cast<std::size_t>(size() - 1), std::min(kDepth, steps),
      [&](std::size_t round) {
        const int hops = static_cast<int>(round / steps);
        const int sent = rank_after(size() - hops), received = rank_after(size() - hops - 1);
        post_piece(round, Direction::receive, place_of(received), rank_after(size() - 1));
        post_piece(round, Direction::send, hops == 0 ? own : place_of(sent), rank_after(1));
      },
      [&](std::size_t round) {  // while the next messages travel
        if (round >= steps) return;
        const std::size_t offset = round * segment;
        copy_bytes(place_of(rank_) + offset, own + offset, piece_size(part, segment, round));
      });
}

void MpiCommunicator::all_gather(const void* send, void* receive, std::size_t count, Element element) {
  begin_collective({"all_gather", count, element});
  const std::size_t part = count * size_of(element);
  if (size() == 1) return copy_bytes(receive, send, part);
  gather(bytes_of(send), bytes_of(receive), part);
}

void MpiCommunicator::broadcast(void* data, std::size_t count, Element element, int root) {
  begin_collective({"broadcast", count, element, {}, root});
  if (size() == 1) return;
  // A chain from the root on: each rank passes on the pieces that came `kDepth` rounds ago.
  const std::size_t bytes = count * size_of(element);
  const std::size_t steps = pieces(bytes, kSegment);
  const bool is_root = rank_ == root, is_last = rank_after(1) == root;
  const auto post_piece = [&](std::size_t round, std::size_t piece, Direction direction, int peer) {
    post(round, direction, bytes_of(data) + piece * kSegment, piece_size(bytes, kSegment, piece), peer);
  };
  const std::size_t behind = is_root ? 0 : std::min(kDepth, steps);
  run_rounds(
      steps + behind, std::min(kDepth, steps),
      [&](std::size_t round) {
        if (!is_root) post_piece(round, round, Direction::receive, rank_after(size() - 1));
        if (!is_last && round >= behind) post_piece(round, round - behind, Direction::send, rank_after(1));
      },
      [](std::size_t) {});
}

void MpiCommunicator::all_to_all(const void* send, void* receive, std::size_t count, Element element) {
  begin_collective({"all_to_all", count, element});
  const std::size_t part = count * size_of(element);
  const auto offset_of = [&](int rank) { return static_cast<std::size_t>(rank) * part; };
  copy_bytes(bytes_of(receive) + offset_of(rank_), bytes_of(send) + offset_of(rank_), part);
  run_rounds(
      pieces(part, kSegment), kDepth,
      [&](std::size_t round) {
        const std::size_t offset = round * kSegment, bytes = piece_size(part, kSegment, round);
        for (int step = 1; step < size(); ++step) {
          const int from = rank_after(size() - step), to = rank_after(step);
          post(round, Direction::receive, bytes_of(receive) + offset_of(from) + offset, bytes, from);
          post(round, Direction::send, bytes_of(send) + offset_of(to) + offset, bytes, to);
        }
      },
      [](std::size_t) {});
}

// --- reducing

std::byte* MpiCommunicator::scratch(std::size_t bytes) {
  if (scratch_.size() * sizeof(Line) < bytes) scratch_.resize(pieces(bytes, sizeof(Line)));
  return reinterpret_cast<std::byte*>(scratch_.data());
}

void MpiCommunicator::fold(const std::byte* send, std::byte* receive, std::size_t count, ReduceOp op) {
  const std::size_t part = count * size_of(call_.element);
  if (size() == 1) return copy_bytes(receive, send, part);
  if (reads_memory_ && part * members_.size() > kSmallCall) {
    fold_read(send, receive, part, op);
  } else {
    fold_messages(send, receive, part, op);
  }
}

void MpiCommunicator::fold_read(const std::byte* send, std::byte* receive, std::size_t part, ReduceOp op) {
  const std::size_t others = members_.size() - 1;
  const std::size_t piece = std::min(kFoldSegment, kScratch / others / sizeof(Line) * sizeof(Line));
  std::byte* const waiting = scratch(others * piece);
  std::vector<const void*> sources(members_.size());
  open(send, part);
  for (std::size_t at = 0; at < part; at += piece) {
    const std::size_t own = static_cast<std::size_t>(rank_) * part + at, bytes = std::min(piece, part - at);
    nth(sources, rank_) = send + own;
    for (int step = 1; step < size(); ++step) {
      std::byte* const place = waiting + static_cast<std::size_t>(step - 1) * piece;
      read(rank_after(step), own, place, bytes);
      nth(sources, rank_after(step)) = place;
    }
    reduce(sources, receive + at, bytes / size_of(call_.element), call_.element, op, stores_for(part));
  }
  close();
}

void MpiCommunicator::fold_messages(const std::byte* send, std::byte* receive, std::size_t part,
                                    ReduceOp op) {
  const std::size_t others = members_.size() - 1;
  const std::size_t piece =
      std::min(kFoldSegment, kScratch / (kDepth * others) / sizeof(Line) * sizeof(Line));
  std::byte* const waiting = scratch(kDepth * others * piece);
  const auto place_of = [&](std::size_t round, int from) {
    const auto before = static_cast<std::size_t>(from < rank_ ? from : from - 1);
    return waiting + ((round % kDepth) * others + before) * piece;
  };
  const auto data_for = [&](std::size_t round, int rank) {
    return send + static_cast<std::size_t>(rank) * part + round * piece;
  };
  std::vector<const void*> sources(members_.size());
  run_rounds(
      pieces(part, piece), kDepth,
      [&](std::size_t round) {
        const std::size_t bytes = piece_size(part, piece, round);
        for (int step = 1; step < size(); ++step) {
          const int from = rank_after(size() - step), to = rank_after(step);
          post(round, Direction::receive, place_of(round, from), bytes, from);
          post(round, Direction::send, data_for(round, to), bytes, to);
        }
      },
      [&](std::size_t round) {
        for (int rank = 0; rank < size(); ++rank) {
          nth(sources, rank) = rank == rank_ ? data_for(round, rank) : place_of(round, rank);
        }
        reduce(sources, receive + round * piece, piece_size(part, piece, round) / size_of(call_.element),
               call_.element, op, stores_for(part));
      });
}

/// Every rank gets everything and folds all of it.
void MpiCommunicator::fold_whole(const std::byte* send, std::byte* receive, std::size_t count, ReduceOp op) {
  const std::size_t bytes = count * size_of(call_.element);
  std::byte* const all = scratch(bytes * members_.size());
  gather(send, all, bytes);
  std::vector<const void*> sources;
  for (std::size_t rank = 0; rank < members_.size(); ++rank) sources.push_back(all + rank * bytes);
  reduce(sources, receive, count, call_.element, op);
}

void MpiCommunicator::reduce_scatter(const void* send, void* receive, std::size_t count, Element element,
                                     ReduceOp op) {
  begin_collective({"reduce_scatter", count, element, op});
  fold(bytes_of(send), bytes_of(receive), count, op);
}

void MpiCommunicator::all_reduce(const void* send, void* receive, std::size_t count, Element element,
                                 ReduceOp op) {
  begin_collective({"all_reduce", count, element, op});
  const auto sum = share_sum(count, size_of(element), members_.size());
  if (sum.part > 0) {
    const std::size_t part = sum.part * size_of(element);
    std::byte* const own = bytes_of(receive) + static_cast<std::size_t>(rank_) * part;
    fold(bytes_of(send), own, sum.part, op);
    gather(own, bytes_of(receive), part);
  }
  if (sum.rest > 0) {
    const std::size_t shared = sum.part * members_.size() * size_of(element);
    fold_whole(bytes_of(send) + shared, bytes_of(receive) + shared, sum.rest, op);
  }
}

// --- messages

void MpiCommunicator::add_message(Direction direction, const void* data, const Call& call, int peer) {
  const std::size_t bytes = *call.count * size_of(call.element);
  Peer& other = nth(peers_, peer);
  const std::int64_t number =
      direction == Direction::send ? ++other.sent_messages : ++other.received_messages;
  // One note for both ends, whatever each takes the bytes for.
  Letter& letter = letters_.emplace_back();
  letter.direction = direction;
  letter.note = note_of({"send", bytes, Element::byte}, number);
  letter.peer = peer;
  for (std::size_t done = 0; done < bytes; done += MpiMessage::kMostBytes)
    letter.messages.push_back(
        message(direction, bytes_of(data) + done, std::min(MpiMessage::kMostBytes, bytes - done), peer));
  if (!in_group_) exchange(call);
}

void MpiCommunicator::send(const void* data, std::size_t count, Element element, int peer) {
  add_message(Direction::send, data, {"send", count, element}, peer);
}

void MpiCommunicator::receive(void* data, std::size_t count, Element element, int peer) {
  add_message(Direction::receive, data, {"receive", count, element}, peer);
}

void MpiCommunicator::begin_group() {
  assert(!in_group_);
  in_group_ = true;
}

void MpiCommunicator::end_group() {
  assert(in_group_);
  in_group_ = false;
  exchange({.operation = "group"});
}

void MpiCommunicator::exchange(const Call& call) {
  std::vector<Letter> letters = std::exchange(letters_, {});
  begin(call);
  for (Letter& letter : letters) {
    const bool sends = letter.direction == Direction::send;
    letter.announcement =
        message(letter.direction, bytes_of(sends ? &letter.note : &letter.heard), sizeof(Note), letter.peer);
    progress_->post(letter.announcement);
    for (MpiMessage& message : letter.messages) post(message);
  }
  for (Letter& letter : letters) {
    progress_->wait(letter.announcement, call_);
    if (letter.direction == Direction::receive) check(letter.heard, letter.note, letter.peer);
    for (const MpiMessage& message : letter.messages) progress_->wait(message, call_);
  }
}

// --- groups

std::unique_ptr<Communicator> MpiCommunicator::split(int color, int key) {
  struct Wish {
    int color, key;
  };
  std::vector<Wish> wishes(members_.size());
  const Wish own = {color, key};
  begin_collective({.operation = "split"});
  gather(bytes_of(&own), bytes_of(wishes.data()), sizeof(Wish));

  std::vector<int> colors;
  for (const Wish& wish : wishes)
    if (wish.color >= 0) colors.push_back(wish.color);
  std::sort(colors.begin(), colors.end());
  colors.erase(std::unique(colors.begin(), colors.end()), colors.end());
  int first_tag = rank_ == 0 ? progress_->reserve_tags(static_cast<int>(colors.size())) : 0;
  broadcast(&first_tag, sizeof first_tag, Element::byte, 0);
  if (color < 0) return nullptr;

  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank)
    if (nth(wishes, rank).color == color) ranks.push_back(rank);
  std::stable_sort(ranks.begin(), ranks.end(),
                   [&](int left, int right) { return nth(wishes, left).key < nth(wishes, right).key; });
  for (int& rank : ranks) rank = nth(members_, rank);
  const auto place = static_cast<int>(std::lower_bound(colors.begin(), colors.end(), color) - colors.begin());
  return std::make_unique<MpiCommunicator>(progress_, std::move(ranks),
                                           first_tag + place * progress_->tag_stride());
}

void MpiCommunicator::abort(const std::string& reason) {
  progress_->fail(fmt::format("{} aborted: {}", progress_->name_of(progress_->rank()), reason));
}

}  // namespace strata
