// Ranks that are processes and exchange values of host memory. In long gathers and reductions of ranks of one
// host each reads what it needs from the others' memory; everything else goes by messages.
//
// What is gathered travels along a ring, which crosses each link between hosts once. What is reduced does
// not: each rank receives its own part from every other and folds the pieces in the order of ranks. That
// moves the bytes of a ring in one hop, rounds once, and adds in an order that does not depend on the owner;
// with several ranks per host more of them cross between hosts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "collectives/mpi_progress.h"
#include "collectives/note.h"

namespace strata {

class MpiCommunicator final : public Communicator {
 public:
  /// `members`: the processes that are the ranks of this group, this one among them. `tag`: no other group's.
  MpiCommunicator(std::shared_ptr<MpiProgress> progress, std::vector<int> members, int tag);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }

  void all_gather(const void* send, void* receive, std::size_t count, Element element) override;
  void reduce_scatter(const void* send, void* receive, std::size_t count, Element element,
                      ReduceOp op) override;
  void all_reduce(const void* send, void* receive, std::size_t count, Element element, ReduceOp op) override;
  void broadcast(void* data, std::size_t count, Element element, int root) override;
  void all_to_all(const void* send, void* receive, std::size_t count, Element element) override;
  void send(const void* data, std::size_t count, Element element, int peer) override;
  void receive(void* data, std::size_t count, Element element, int peer) override;
  void begin_group() override;
  void end_group() override;
  std::unique_ptr<Communicator> split(int color, int key) override;
  std::size_t sent_bytes() const override { return sent_bytes_; }
  std::optional<std::string> failure() const override { return progress_->failure(); }
  void abort(const std::string& reason) override;

 private:
  using Direction = MpiMessage::Direction;

  struct Posted {
    MpiMessage message;
    int heard_from = -1;     ///< whose note it brings, if any
    bool is_posted = false;  ///< data of a peer wait for its note
  };
  /// Another rank, or this one.
  struct Peer {
    Note heard;          ///< of the call under way
    bool told = false;   ///< the note went to it, or
    bool hears = false;  ///< is to come from it
    std::int64_t sent_messages = 0, received_messages = 0;
  };
  /// A message between two ranks: a note, and the data in pieces.
  struct Letter {
    Direction direction;
    int peer;
    Note note;   ///< sent, or to be
    Note heard;  ///< by the one that receives
    MpiMessage announcement;
    std::vector<MpiMessage> messages;
  };

  int rank_after(int steps) const { return (rank_ + steps) % size(); }
  void begin(const Call& call);
  void begin_collective(const Call& call);
  MpiMessage message(Direction direction, const std::byte* data, std::size_t bytes, int peer) const;
  void post(MpiMessage& message);
  void post(std::size_t round, Direction direction, const std::byte* data, std::size_t bytes, int peer);
  void post_note(std::size_t round, Direction direction, int peer);
  void hear_notes(std::size_t round);
  void check(const Note& heard, const Note& own, int peer);
  void run_rounds(std::size_t rounds, std::size_t depth, const std::function<void(std::size_t)>& post_round,
                  const std::function<void(std::size_t)>& finish_round);

  std::vector<Note> exchange_notes(const std::vector<Note>& notes);
  void open(const std::byte* data, std::size_t bytes);
  void read(int rank, std::size_t offset, std::byte* to, std::size_t bytes);
  void close();

  /// `own` is this rank's part, of `part` bytes as every rank's is, and may be in its place already.
  void gather(const std::byte* own, std::byte* data, std::size_t part);
  /// Each rank has a part of `send`, of `count` elements; this one's is folded into `receive`.
  void fold(const std::byte* send, std::byte* receive, std::size_t count, ReduceOp op);
  void fold_read(const std::byte* send, std::byte* receive, std::size_t part, ReduceOp op);
  void fold_messages(const std::byte* send, std::byte* receive, std::size_t part, ReduceOp op);
  void fold_whole(const std::byte* send, std::byte* receive, std::size_t count, ReduceOp op);
  std::byte* scratch(std::size_t bytes);
  void add_message(Direction direction, const void* data, const Call& call, int peer);
  void exchange(const Call& call);

  const std::shared_ptr<MpiProgress> progress_;
  const std::vector<int> members_;
  const int tag_;
  int rank_ = 0;
  std::size_t sent_bytes_ = 0;
  Call call_;                               ///< under way
  std::int64_t number_ = 0;                 ///< of collective calls that began
  Note note_;                               ///< of the one under way
  std::vector<Peer> peers_;                 ///< by rank
  std::vector<std::vector<Posted>> slots_;  ///< the messages of rounds under way
  struct alignas(64) Line {                 // of the caches
    std::byte bytes[64];
  };
  std::vector<Line> scratch_;  ///< pieces of other ranks, before they are folded
  const bool reads_memory_;    ///< of all other ranks here
  std::vector<Note> opened_;   ///< where the ranks' data are, in a call that reads them
  std::vector<Note> read_;     ///< how much was read from each
  bool in_group_ = false;
  std::vector<Letter> letters_;  ///< of the group
};

}  // namespace strata
