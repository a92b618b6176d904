#include "offload/transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/nth.h"
#include "base/watchdog.h"
#include "offload/store.h"

namespace strata {
namespace {

constexpr Bytes kNothing = -1;

const char* verb(Direction direction) {
  return direction == Direction::read ? "read" : "write";
}

/// What the system says of an operation that went as well as it could, after the fault had its way.
std::int64_t falsify(const BlockFault& fault, Direction direction, std::byte* memory, Bytes asked,
                     std::int64_t result) {
  if (result < 0) return result;
  if (fault.flipped_bit >= 0 && direction == Direction::read)
    memory[fault.flipped_bit / 8] ^= std::byte{1} << (fault.flipped_bit % 8);
  if (fault.torn) return asked;
  return fault.limit == BlockFault::kAll ? result : std::min(result, fault.limit);
}

class JoinedShares {
 public:
  explicit JoinedShares(std::deque<DiskShare>& shares) : shares_(shares) {
    for (DiskShare& share : shares_) share.join();
  }
  ~JoinedShares() {
    for (DiskShare& share : shares_) share.leave();
  }
  JoinedShares(const JoinedShares&) = delete;
  JoinedShares& operator=(const JoinedShares&) = delete;

 private:
  std::deque<DiskShare>& shares_;
};

}  // namespace

int transfer_slots(int files) {
  return files * kDepthPerDisk;
}

Transfer::Transfer(StoreFiles& files, BlockEngine& engine)
    : files_(files),
      engine_(engine),
      slots_(static_cast<std::size_t>(transfer_slots(files.map.files()))),
      lanes_(static_cast<std::size_t>(files.map.files())),
      results_(slots_.size()),
      waiting_(slots_.size()) {
  for (int index = 0; index < std::ssize(slots_); ++index) free_.push_back(index);
  for (std::atomic<Bytes>& offset : waiting_) offset = kNothing;
  finished_.reserve(slots_.size());
}

std::string Transfer::run(const TransferRequest& request) {
  const JoinedShares joined(files_.shares);
  request_ = request;
  error_.clear();
  moved_ = moved_end_ = 0;
  WatchedWait wait([this] { return describe(); });
  wait_ = &wait;
  for (int file = 0; file < std::ssize(lanes_); ++file)
    nth(lanes_, file).next = files_.map.next_in(file, request.offset, end());
  fill();
  while (in_flight() > 0) {
    // Checksums are computed while the disks work.
    engine_.submit();
    check_finished();
    const std::size_t count = engine_.reap(results_);
    for (const BlockResult& result : std::span(results_).first(count)) {
      if (settle(nth(slots_, result.slot), result.result) == Outcome::to_be_continued)
        start(result.slot);
      else
        release(result.slot);
    }
    fill();
  }
  check_finished();
  return error_;
}

/// Each file has blocks of its own to go on with: a slow disk does not hold up the others.
void Transfer::fill() {
  for (std::size_t file = 0; file < lanes_.size(); ++file) {
    Lane& lane = lanes_[file];
    while (!stopped() && lane.next < end() && !free_.empty()) {
      const StripePiece piece = files_.map.piece(lane.next, end());
      if (lane.in_flight + piece.length > files_.shares[file].bytes_in_flight(request_.direction)) break;
      lane.next = files_.map.next_in(piece.file, piece.offset + piece.length, end());
      lane.in_flight += piece.length;
      const int index = free_.back();
      free_.pop_back();
      nth(slots_, index) = {.piece = piece, .memory = request_.memory + (piece.offset - request_.offset)};
      nth(waiting_, index) = piece.offset;
      start(index);
    }
  }
}

/// The rest of the slot's piece; releases the slot if a fault lets nothing come of it.
void Transfer::start(int index) {
  Slot& slot = nth(slots_, index);
  const SpillFile& file = nth(files_.files, slot.piece.file);
  for (;;) {
    BlockOperation operation = {.direction = request_.direction,
                                .descriptor = file.descriptor.get(),
                                .offset = slot.piece.file_offset + slot.done,
                                .memory = slot.memory + slot.done,
                                .length = slot.piece.length - slot.done};
    slot.asked = operation.length;
    if (files_.faults == nullptr) return engine_.start(index, operation);

    slot.fault = files_.faults->before({.write = request_.direction == Direction::write,
                                        .path = file.path,
                                        .offset = operation.offset,
                                        .length = operation.length});
    std::this_thread::sleep_for(std::chrono::duration<double>(slot.fault.delay_seconds));
    if (slot.fault.limit != BlockFault::kAll)
      operation.length = std::min(operation.length, align_up(slot.fault.limit, kStoreAlignment));
    if (slot.fault.error == 0 && operation.length > 0) return engine_.start(index, operation);
    if (settle(slot, -slot.fault.error) == Outcome::ended) return release(index);
  }
}

Transfer::Outcome Transfer::settle(Slot& slot, std::int64_t result) {
  result = falsify(slot.fault, request_.direction, slot.memory + slot.done, slot.asked, result);
  if (result == -EAGAIN || result == -EINTR) return retry(slot);
  if (result <= 0) {
    fail(slot, result < 0 ? std::generic_category().message(static_cast<int>(-result))
               : request_.direction == Direction::read ? "the file ends before that"
                                                       : "nothing was written");
    return Outcome::ended;
  }
  // O_DIRECT goes on at aligned places only: what is beyond the last one is moved again.
  const Bytes before = slot.done;
  slot.done += std::min(result, slot.asked);
  if (slot.done < slot.piece.length) {
    slot.done = slot.done / kStoreAlignment * kStoreAlignment;
    if (slot.done == before) return retry(slot);
    count(slot, before);
    wait_->advance();
    return stopped() ? Outcome::ended : Outcome::to_be_continued;
  }
  count(slot, before);
  wait_->advance();
  if (files_.checksums)
    finished_.push_back({slot.piece.offset, {slot.memory, static_cast<std::size_t>(slot.piece.length)}});
  return Outcome::ended;
}

void Transfer::count(const Slot& slot, Bytes before) {
  moved_ += slot.done - before;
  moved_end_ = std::max(moved_end_, slot.piece.offset + slot.done);
}

/// The system had no room for the operation, or did nothing of use. That is no advance, so the watchdog tells
/// of one that goes on so.
Transfer::Outcome Transfer::retry(Slot& slot) {
  constexpr int kAtOnce = 3, kLongestMilliseconds = 10;
  if (++slot.attempts > kAtOnce)
    std::this_thread::sleep_for(
        std::chrono::milliseconds(std::min(slot.attempts - kAtOnce, kLongestMilliseconds)));
  return stopped() ? Outcome::ended : Outcome::to_be_continued;
}

void Transfer::release(int index) {
  const StripePiece& piece = nth(slots_, index).piece;
  nth(lanes_, piece.file).in_flight -= piece.length;
  nth(waiting_, index) = kNothing;
  free_.push_back(index);
}

void Transfer::check_finished() {
  for (const Finished& block : finished_) {
    if (request_.direction == Direction::write)
      files_.checksums->record(block.offset, block.memory);
    else if (const auto mismatch =
                 stopped() ? std::nullopt : files_.checksums->check(block.offset, block.memory))
      fail_mismatch(*mismatch);
  }
  finished_.clear();
}

void Transfer::fail(const Slot& slot, const std::string& reason) {
  if (!error_.empty()) return;
  error_ = fmt::format("cannot {} {} bytes at offset {} of {}: {}", verb(request_.direction),
                       slot.piece.length - slot.done, slot.piece.file_offset + slot.done,
                       nth(files_.files, slot.piece.file).path, reason);
}

void Transfer::fail_mismatch(const PageChecksums::Mismatch& mismatch) {
  const StripePiece piece = files_.map.piece(mismatch.offset, mismatch.offset + kStoreAlignment);
  error_ = fmt::format("cannot read {} bytes at offset {} of {}: {}", piece.length, piece.file_offset,
                       nth(files_.files, piece.file).path,
                       mismatch.never_written
                           ? "nothing was ever written there"
                           : "the checksum is not that of what was written; the data changed on disk");
}

std::string Transfer::describe() const {
  Bytes first = kNothing;
  for (const std::atomic<Bytes>& slot : waiting_) {
    const Bytes offset = slot;
    if (offset != kNothing && (first == kNothing || offset < first)) first = offset;
  }
  if (first == kNothing) return "a transfer of the NVMe store";
  const StripePiece piece = files_.map.piece(first, first + 1);
  return fmt::format("{} at offset {} of {}", request_.direction == Direction::read ? "reading" : "writing",
                     piece.file_offset, nth(files_.files, piece.file).path);
}

}  // namespace strata
