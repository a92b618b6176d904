// NCCL's calls do not block here, not even for its own start: each is followed until NCCL has issued it,
// under the watchdog.
#include "collectives/nccl_communicator.h"

#include <fmt/format.h>

#include <cassert>
#include <chrono>
#include <mutex>
#include <thread>

#include "collectives/call.h"
#include "collectives/nccl_library.h"
#include "collectives/sent_bytes.h"
#include "engine/base/error.h"

namespace strata {
namespace {

ncclDataType_t type_of(Element element) {
  switch (element) {
    case Element::fp32:
      return ncclFloat32;
    case Element::bf16:
      return ncclBfloat16;
    case Element::fp64:
      return ncclFloat64;
    case Element::byte:
      break;
  }
  return ncclUint8;
}

ncclRedOp_t operation_of(ReduceOp op) {
  return op == ReduceOp::sum ? ncclSum : op == ReduceOp::min ? ncclMin : ncclMax;
}

const std::byte* bytes_at(const void* data, std::size_t offset) {
  return static_cast<const std::byte*>(data) + offset;
}
std::byte* bytes_at(void* data, std::size_t offset) {
  return static_cast<std::byte*>(data) + offset;
}

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(std::unique_ptr<Communicator> host, const NcclOptions& options)
      : nccl_(nccl_library()), host_(std::move(host)), options_(options) {}

  ~NcclCommunicator() override {
    if (!comm_) return;
    if (failure()) {
      nccl_.abort(comm_);
    } else {
      nccl_.destroy(comm_);
    }
  }

  void start() {
    ncclUniqueId id{};
    const Call call = {.operation = "start of NCCL"};
    if (rank() == 0) check(nccl_.get_unique_id(&id), call);
    host_->broadcast(&id, sizeof id, Element::byte, 0);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    follow(nccl_.init_rank(&comm_, size(), id, rank(), &config), comm_, call);
  }

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }

  void all_gather(const void* send, void* receive, std::size_t count, Element element) override {
    const Call call = begin({"all_gather", count, element});
    issue(nccl_.all_gather(send, receive, count, type_of(element), comm_, options_.stream), call);
    sent_bytes_ += sent_in_parts(count * size_of(element), ranks());
  }
  void reduce_scatter(const void* send, void* receive, std::size_t count, Element element,
                      ReduceOp op) override {
    const Call call = begin({"reduce_scatter", count, element});
    issue(nccl_.reduce_scatter(send, receive, count, type_of(element), operation_of(op), comm_,
                               options_.stream),
          call);
    sent_bytes_ += sent_in_parts(count * size_of(element), ranks());
  }
  void all_reduce(const void* send, void* receive, std::size_t count, Element element, ReduceOp op) override {
    const Call call = begin({"all_reduce", count, element});
    issue(nccl_.all_reduce(send, receive, count, type_of(element), operation_of(op), comm_, options_.stream),
          call);
    sent_bytes_ += sent_in_sum(count, size_of(element), ranks());
  }
  void broadcast(void* data, std::size_t count, Element element, int root) override {
    const Call call = begin({"broadcast", count, element});
    issue(nccl_.broadcast(data, data, count, type_of(element), root, comm_, options_.stream), call);
    const bool ends_the_chain = (rank() + 1) % size() == root;
    if (!ends_the_chain) sent_bytes_ += count * size_of(element);
  }
  void all_to_all(const void* send, void* receive, std::size_t count, Element element) override {
    const std::size_t bytes = count * size_of(element);
    const Call call = begin({"all_to_all", count, element});
    check(nccl_.group_start(), call);
    for (int peer = 0; peer < size(); ++peer) {
      const std::size_t offset = static_cast<std::size_t>(peer) * bytes;
      add(nccl_.send(bytes_at(send, offset), bytes, ncclUint8, peer, comm_, options_.stream), call);
      add(nccl_.receive(bytes_at(receive, offset), bytes, ncclUint8, peer, comm_, options_.stream), call);
    }
    issue(nccl_.group_end(), call);
    sent_bytes_ += sent_in_parts(bytes, ranks());
  }

  void send(const void* data, std::size_t count, Element element, int peer) override {
    const Call call = begin({"send", count, element});
    issue(nccl_.send(data, count, type_of(element), peer, comm_, options_.stream), call);
    if (peer != rank()) sent_bytes_ += count * size_of(element);
  }
  void receive(void* data, std::size_t count, Element element, int peer) override {
    const Call call = begin({"receive", count, element});
    issue(nccl_.receive(data, count, type_of(element), peer, comm_, options_.stream), call);
  }
  void begin_group() override {
    assert(!in_group_);
    const Call call = begin({.operation = "group"});
    check(nccl_.group_start(), call);
    in_group_ = true;
  }
  void end_group() override {
    assert(in_group_);
    in_group_ = false;
    issue(nccl_.group_end(), {.operation = "group"});
  }

  std::unique_ptr<Communicator> split(int color, int key) override {
    const Call call = begin({.operation = "split"});
    std::unique_ptr<Communicator> host = host_->split(color, key);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t part = nullptr;
    follow(nccl_.split(comm_, color < 0 ? NCCL_SPLIT_NOCOLOR : color, key, &part, &config), comm_, call);
    if (!host) return nullptr;
    auto result = std::make_unique<NcclCommunicator>(std::move(host), options_);
    result->comm_ = part;
    result->follow(ncclInProgress, part, call);
    return result;
  }

  std::size_t sent_bytes() const override { return sent_bytes_; }

  std::optional<std::string> failure() const override {
    if (auto reason = host_->failure()) return reason;
    ncclResult_t state = ncclSuccess;
    if (comm_) nccl_.async_error(comm_, &state);
    if (state == ncclSuccess || state == ncclInProgress) return std::nullopt;
    return fmt::format("NCCL on rank {}: {}", rank(), nccl_.error_string(state));
  }

  /// What runs on the stream ends when its own rank hears of the failure: failure() is what those who wait
  /// for events ask.
  void abort(const std::string& reason) override { host_->abort(reason); }

 private:
  std::string self() const { return fmt::format("rank {}", rank()); }
  std::size_t ranks() const { return static_cast<std::size_t>(size()); }

  Call begin(const Call& call) const {
    if (const auto reason = failure()) throw CommError(ended_sentence(call, self(), *reason));
    return call;
  }

  void check(ncclResult_t result, const Call& call) {
    if (result == ncclSuccess) return;
    const std::string reason = fmt::format("{} on {} failed: NCCL: {} {}", describe(call), self(),
                                           nccl_.error_string(result), nccl_.last_error(comm_));
    host_->abort(reason);
    throw CommError(reason);
  }

  /// A call within a group is issued by the group's end.
  void add(ncclResult_t result, const Call& call) {
    if (result != ncclInProgress) check(result, call);
  }
  void issue(ncclResult_t result, const Call& call) {
    if (in_group_) return add(result, call);
    follow(result, comm_, call);
  }

  /// Waits until NCCL has issued what it was asked for, which for the first call between two ranks takes a
  /// handshake.
  void follow(ncclResult_t result, ncclComm_t comm, const Call& call) {
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::duration<double>(options_.watchdog_seconds);
    for (; result == ncclInProgress; std::this_thread::sleep_for(std::chrono::microseconds(20))) {
      check(nccl_.async_error(comm, &result), call);
      if (result != ncclInProgress) break;
      if (const auto reason = host_->failure()) throw CommError(ended_sentence(call, self(), *reason));
      if (std::chrono::steady_clock::now() < end) continue;
      const std::string reason =
          waited_sentence(call, self(), options_.watchdog_seconds, "the other ranks' part in NCCL");
      host_->abort(reason);
      throw CommError(reason);
    }
    check(result, call);
  }

  const NcclLibrary& nccl_;
  const std::unique_ptr<Communicator> host_;  ///< the same ranks in host memory
  const NcclOptions options_;
  ncclComm_t comm_ = nullptr;
  std::size_t sent_bytes_ = 0;
  bool in_group_ = false;
};

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(std::unique_ptr<Communicator> host,
                                                     const NcclOptions& options) {
  auto result = std::make_unique<NcclCommunicator>(std::move(host), options);
  result->start();
  return result;
}

}  // namespace strata
