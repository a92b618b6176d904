// NCCL's calls do not block here, not even for its own start: each is followed until NCCL has issued it,
// under the watchdog.
#include "collectives/nccl_communicator.h"

#include <fmt/format.h>

#include <cassert>
#include <chrono>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "collectives/call.h"
#include "collectives/nccl_library.h"
#include "collectives/sent_bytes.h"

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
    if (!failure()) {
      nccl_.destroy(comm_);
      return;
    }
    nccl_.abort(comm_);
    if (split_) nccl_.abort(split_);
  }

  void start() {
    ncclUniqueId id{};
    const Call call = {.operation = "start of NCCL"};
    if (rank() == 0) check(nccl_.get_unique_id(&id), call);
    host_->broadcast(&id, sizeof id, Element::byte, 0);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    const ncclResult_t begun = nccl_.init_rank(&comm_, size(), id, rank(), &config);
    if (begun != ncclInProgress) check(begun, call);
    follow(call);
  }

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }

  void all_gather(const void* send, void* receive, std::size_t count, Element element) override {
    const Call call = begin({"all_gather", count, element});
    issue(call, nccl_.all_gather, send, receive, count, type_of(element), comm_, options_.stream);
    sent_bytes_ += sent_in_parts(count * size_of(element), ranks());
  }
  void reduce_scatter(const void* send, void* receive, std::size_t count, Element element,
                      ReduceOp op) override {
    const Call call = begin({"reduce_scatter", count, element});
    issue(call, nccl_.reduce_scatter, send, receive, count, type_of(element), operation_of(op), comm_,
          options_.stream);
    sent_bytes_ += sent_in_parts(count * size_of(element), ranks());
  }
  void all_reduce(const void* send, void* receive, std::size_t count, Element element, ReduceOp op) override {
    const Call call = begin({"all_reduce", count, element});
    issue(call, nccl_.all_reduce, send, receive, count, type_of(element), operation_of(op), comm_,
          options_.stream);
    sent_bytes_ += sent_in_sum(count, size_of(element), ranks());
  }
  void broadcast(void* data, std::size_t count, Element element, int root) override {
    const Call call = begin({"broadcast", count, element});
    issue(call, nccl_.broadcast, data, data, count, type_of(element), root, comm_, options_.stream);
    const bool ends_the_chain = (rank() + 1) % size() == root;
    if (!ends_the_chain) sent_bytes_ += count * size_of(element);
  }
  void all_to_all(const void* send, void* receive, std::size_t count, Element element) override {
    const std::size_t bytes = count * size_of(element);
    const Call call = begin({"all_to_all", count, element});
    start_group(call);
    for (int peer = 0; peer < size(); ++peer) {
      const std::size_t offset = static_cast<std::size_t>(peer) * bytes;
      issue(call, nccl_.send, bytes_at(send, offset), bytes, ncclUint8, peer, comm_, options_.stream);
      issue(call, nccl_.receive, bytes_at(receive, offset), bytes, ncclUint8, peer, comm_, options_.stream);
    }
    issue_group(call);
    sent_bytes_ += sent_in_parts(bytes, ranks());
  }

  void send(const void* data, std::size_t count, Element element, int peer) override {
    const Call call = begin({"send", count, element});
    issue(call, nccl_.send, data, count, type_of(element), peer, comm_, options_.stream);
    if (peer != rank()) sent_bytes_ += count * size_of(element);
  }
  void receive(void* data, std::size_t count, Element element, int peer) override {
    const Call call = begin({"receive", count, element});
    issue(call, nccl_.receive, data, count, type_of(element), peer, comm_, options_.stream);
  }
  void begin_group() override { start_group(begin({.operation = "group"})); }
  void end_group() override { issue_group({.operation = "group"}); }

  std::unique_ptr<Communicator> split(int color, int key) override {
    const Call call = begin({.operation = "split"});
    std::unique_ptr<Communicator> host = host_->split(color, key);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    split_ = nullptr;
    issue(call, nccl_.split, comm_, color < 0 ? NCCL_SPLIT_NOCOLOR : color, key, &split_, &config);
    if (!host) return nullptr;
    auto result = std::make_unique<NcclCommunicator>(std::move(host), options_);
    result->comm_ = std::exchange(split_, nullptr);
    result->follow(call);
    return result;
  }

  std::size_t sent_bytes() const override { return sent_bytes_; }

  std::optional<std::string> failure() const override {
    if (auto reason = host_->failure()) return reason;
    ncclResult_t state = ncclSuccess;
    if (comm_) ask(state);
    if (state == ncclSuccess || state == ncclInProgress) return std::nullopt;
    const std::string reason = fmt::format("NCCL on {}: {}", self(), nccl_.error_string(state));
    host_->abort(reason);
    return reason;
  }

  /// What runs on the stream ends when its own rank hears of the failure: failure() is what those who wait
  /// for events ask.
  void abort(const std::string& reason) override { host_->abort(reason); }

 private:
  std::string self() const { return fmt::format("rank {}", rank()); }
  std::size_t ranks() const { return static_cast<std::size_t>(size()); }

  /// Throws if the group has failed already.
  Call begin(const Call& call) {
    end_with_other_ranks(call);
    ncclResult_t state = ncclSuccess;
    check(ask(state), call);
    if (state != ncclInProgress) check(state, call);
    return call;
  }
  void end_with_other_ranks(const Call& call) {
    const auto reason = host_->failure();
    if (!reason) return;
    leave_group();
    throw EndedByRankError(ended_sentence(call, self(), *reason));
  }

  void check(ncclResult_t result, const Call& call) {
    if (result == ncclSuccess) return;
    leave_group();
    const std::string reason = fmt::format("{} on {} failed: NCCL: {} {}", describe(call), self(),
                                           nccl_.error_string(result), nccl_.last_error(comm_));
    host_->abort(reason);
    throw CommError(reason);
  }

  void start_group(const Call& call) {
    assert(!in_group_);
    check(nccl_.group_start(), call);
    in_group_ = true;
  }
  void issue_group(const Call& call) {
    assert(in_group_);
    in_group_ = false;
    issue(call, nccl_.group_end);
  }

  /// A group that fails is the thread's until it is ended; NCCL aborts nothing before.
  void leave_group() {
    if (std::exchange(in_group_, false)) nccl_.group_end();
  }

  /// Calls NCCL, and waits until what it was asked for is issued, which for the first call between two ranks
  /// takes a handshake. A call within a group is issued by the group's end.
  template <typename Function, typename... Arguments>
  void issue(const Call& call, Function function, const Arguments&... arguments) {
    ncclResult_t result = ncclSuccess;
    {
      const std::lock_guard lock(calls_);
      result = function(arguments...);
    }
    if (result != ncclInProgress) check(result, call);
    if (!in_group_) follow(call);  // whatever it was: a split is a success before it is done
  }

  /// What has become of the calls.
  ncclResult_t ask(ncclResult_t& state) const {
    const std::lock_guard lock(calls_);
    return nccl_.async_error(comm_, &state);
  }

  /// Waits for what NCCL does in the background.
  void follow(const Call& call) {
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::duration<double>(options_.watchdog_seconds);
    for (;; std::this_thread::sleep_for(std::chrono::microseconds(20))) {
      ncclResult_t state = ncclSuccess;
      check(ask(state), call);
      if (state != ncclInProgress) return check(state, call);
      end_with_other_ranks(call);
      if (std::chrono::steady_clock::now() < end) continue;
      const std::string reason =
          waited_sentence(call, self(), options_.watchdog_seconds, "the other ranks' part in NCCL");
      host_->abort(reason);
      throw CommError(reason);
    }
  }

  const NcclLibrary& nccl_;
  const std::unique_ptr<Communicator> host_;  ///< the same ranks in host memory
  const NcclOptions options_;
  ncclComm_t comm_ = nullptr;
  ncclComm_t split_ = nullptr;  ///< what a split that is under way, or has failed, makes
  /// NCCL's calls come one at a time. Asking for their state is one: it ends what NCCL did in the background.
  mutable std::mutex calls_;
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
