#include "offload/uring_engine.h"

#include <fmt/format.h>
#include <liburing.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <system_error>
#include <thread>

#include "base/error.h"

// liburing 2.3 has them all; the running kernel may not.
static_assert(IORING_SETUP_DEFER_TASKRUN != 0 && IORING_SETUP_SINGLE_ISSUER != 0);

namespace strata {
namespace {

std::string text_of(int error) {
  return std::generic_category().message(error);
}

/// Newest first, as each kernel refuses with EINVAL what is newer than itself. DEFER_TASKRUN needs
/// SINGLE_ISSUER.
constexpr std::array<unsigned, 4> kOptionalFlags = {IORING_SETUP_DEFER_TASKRUN, IORING_SETUP_SINGLE_ISSUER,
                                                    IORING_SETUP_COOP_TASKRUN, IORING_SETUP_SUBMIT_ALL};

/// An errno, or 0 and a ring that the calling thread has to use and to drop.
int make_ring(io_uring& ring, unsigned slots) {
  unsigned flags = 0;
  for (const unsigned flag : kOptionalFlags) flags |= flag;
  for (std::size_t dropped = 0;; ++dropped) {
    io_uring_params params{};
    params.flags = flags | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP;
    params.cq_entries = slots;
    const int result = io_uring_queue_init_params(slots, &ring, &params);
    if (result != -EINVAL || dropped == kOptionalFlags.size()) return -result;
    flags &= ~kOptionalFlags[dropped];
  }
}

class UringEngine final : public BlockEngine {
 public:
  explicit UringEngine(int slots) {
    const int error = make_ring(ring_, static_cast<unsigned>(slots));
    if (error != 0) throw IoError("cannot make an io_uring: " + explain_uring_error(error));
  }
  ~UringEngine() override { io_uring_queue_exit(&ring_); }
  UringEngine(const UringEngine&) = delete;
  UringEngine& operator=(const UringEngine&) = delete;

  void start(int slot, const BlockOperation& operation) override;
  void submit() override;
  std::size_t reap(std::span<BlockResult> results) override;

 private:
  /// Whether to call again; throws if that would not help.
  static bool try_again(int result);

  io_uring ring_{};
};

bool UringEngine::try_again(int result) {
  if (result >= 0) return false;
  if (result != -EINTR && result != -EAGAIN && result != -EBUSY)
    throw IoError("io_uring_enter failed: " + text_of(-result));
  // EAGAIN: the kernel is short of memory for requests, and some are about to end.
  if (result == -EAGAIN) std::this_thread::sleep_for(std::chrono::microseconds(100));
  return true;
}

void UringEngine::start(int slot, const BlockOperation& operation) {
  io_uring_sqe* entry = io_uring_get_sqe(&ring_);
  while (entry == nullptr) {
    submit();
    entry = io_uring_get_sqe(&ring_);
  }
  const auto length = static_cast<unsigned>(operation.length);
  const auto offset = static_cast<std::uint64_t>(operation.offset);
  if (operation.direction == Direction::read)
    io_uring_prep_read(entry, operation.descriptor, operation.memory, length, offset);
  else
    io_uring_prep_write(entry, operation.descriptor, operation.memory, length, offset);
  io_uring_sqe_set_data64(entry, static_cast<std::uint64_t>(slot));
}

void UringEngine::submit() {
  while (io_uring_sq_ready(&ring_) > 0)
    if (!try_again(io_uring_submit(&ring_))) return;
}

std::size_t UringEngine::reap(std::span<BlockResult> results) {
  while (io_uring_cq_ready(&ring_) == 0) try_again(io_uring_submit_and_wait(&ring_, 1));
  submit();
  std::size_t count = 0;
  unsigned head = 0;
  io_uring_cqe* entry = nullptr;
  io_uring_for_each_cqe(&ring_, head, entry) {
    results[count++] = {static_cast<int>(io_uring_cqe_get_data64(entry)), entry->res};
    if (count == results.size()) break;
  }
  io_uring_cq_advance(&ring_, static_cast<unsigned>(count));
  return count;
}

bool has_operations(io_uring& ring) {
  io_uring_probe* probe = io_uring_get_probe_ring(&ring);
  if (probe == nullptr) return false;
  const bool has = io_uring_opcode_supported(probe, IORING_OP_READ) != 0 &&
                   io_uring_opcode_supported(probe, IORING_OP_WRITE) != 0;
  io_uring_free_probe(probe);
  return has;
}

}  // namespace

std::unique_ptr<BlockEngine> make_uring_engine(int slots) {
  return std::make_unique<UringEngine>(slots);
}

int uring_error(IoFaults* faults) {
  if (const int error = faults != nullptr ? faults->setup_error("io_uring_setup") : 0; error != 0)
    return error;
  io_uring ring{};
  if (const int error = make_ring(ring, 1); error != 0) return error;
  const bool complete = has_operations(ring);
  io_uring_queue_exit(&ring);
  return complete ? 0 : ENOSYS;
}

std::string explain_uring_error(int error) {
  int disabled = 0;
  std::ifstream("/proc/sys/kernel/io_uring_disabled") >> disabled;
  if (error == EPERM && disabled != 0)
    return fmt::format("{}, kernel.io_uring_disabled is {}", text_of(error), disabled);
  return text_of(error);
}

}  // namespace strata
