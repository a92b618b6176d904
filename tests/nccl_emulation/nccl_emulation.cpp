// NCCL for ranks that are threads of one process and a GPU whose memory is the host's. A program that has
// this source needs no libnccl: nccl_library() is here. README.md says what is modelled.
// Not in a unity build: it has many names in common with others.
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/nccl_library.h"
#include "collectives/threads_communicator.h"
#include "tests/cuda_emulation/stream.h"

/// The rank's two groups: what streams do goes through one, splits through the other.
struct ncclComm {
  std::shared_ptr<strata::Communicator> streams, splits;
  std::function<bool()> finished = {};  ///< whether the call in progress is; empty if none is
  std::shared_ptr<std::atomic<bool>> failed = std::make_shared<std::atomic<bool>>(false);
};

namespace strata {
namespace {

constexpr double kWatchdogSeconds = 900;  // far beyond a test's: a rank that waits must be aborted

/// Where the ranks of a new group meet.
struct Start {
  std::vector<std::unique_ptr<Communicator>> streams, splits;
  std::atomic<int> absent;
};
std::mutex starts_mutex;
std::map<std::uint64_t, std::shared_ptr<Start>> starts;

std::uint64_t number_of(const ncclUniqueId& id) {
  std::uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  return number;
}

std::optional<Element> element_of(ncclDataType_t type) {
  switch (type) {
    case ncclUint8:
      return Element::byte;
    case ncclFloat32:
      return Element::fp32;
    case ncclBfloat16:
      return Element::bf16;
    case ncclFloat64:
      return Element::fp64;
    default:
      return std::nullopt;
  }
}

std::optional<ReduceOp> operation_of(ncclRedOp_t op) {
  switch (op) {
    case ncclSum:
      return ReduceOp::sum;
    case ncclMin:
      return ReduceOp::min;
    case ncclMax:
      return ReduceOp::max;
    default:
      return std::nullopt;
  }
}

/// What this thread's ncclGroupEnd will issue.
struct OpenGroup {
  int depth = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<std::function<void(Communicator&)>> messages;
};
thread_local OpenGroup open_group;

using Work = std::function<void(Communicator&)>;

/// Puts the work into the stream as soon as somebody asks for its state a second time.
ncclResult_t begin(ncclComm_t comm, cudaStream_t stream, Work work) {
  auto perform = [streams = comm->streams, failed = comm->failed, work = std::move(work)] {
    try {
      work(*streams);
    } catch (const std::exception&) {
      *failed = true;
    }
  };
  auto task = [perform, exchanges = stream->exchanges, number = stream->exchanges->issue()] {
    exchanges->perform(number, perform);
  };
  comm->finished = [stream, task = std::move(task), asked = false]() mutable {
    if (!std::exchange(asked, true)) return false;
    stream->add(task);
    return true;
  };
  return ncclInProgress;
}

ncclResult_t refusal(ncclComm_t comm) {
  if (comm == nullptr) return ncclInvalidArgument;
  return comm->finished ? ncclInvalidUsage : ncclSuccess;
}

ncclResult_t collective(ncclComm_t comm, cudaStream_t stream, ncclDataType_t type, ncclRedOp_t op,
                        const std::function<void(Communicator&, Element, ReduceOp)>& work) {
  if (const ncclResult_t refused = refusal(comm); refused != ncclSuccess) return refused;
  const std::optional<Element> element = element_of(type);
  const std::optional<ReduceOp> operation = operation_of(op);
  if (!element || !operation) return ncclInvalidArgument;
  if (open_group.depth > 0) return ncclInvalidUsage;
  return begin(comm, stream, [=](Communicator& ranks) { work(ranks, *element, *operation); });
}

ncclResult_t group_start() {
  ++open_group.depth;
  return ncclSuccess;
}

ncclResult_t group_end() {
  if (open_group.depth == 0) return ncclInvalidUsage;
  if (--open_group.depth > 0) return ncclSuccess;
  const OpenGroup group = std::exchange(open_group, {});
  if (group.messages.empty()) return ncclSuccess;
  return begin(group.comm, group.stream, [messages = group.messages](Communicator& ranks) {
    ranks.begin_group();
    for (const Work& message : messages) message(ranks);
    ranks.end_group();
  });
}

ncclResult_t message(ncclComm_t comm, cudaStream_t stream, ncclDataType_t type,
                     const std::function<void(Communicator&, Element)>& work) {
  if (const ncclResult_t refused = refusal(comm); refused != ncclSuccess) return refused;
  const std::optional<Element> element = element_of(type);
  if (!element) return ncclInvalidArgument;
  const bool other = open_group.comm != nullptr && (open_group.comm != comm || open_group.stream != stream);
  if (other) return ncclInvalidUsage;
  group_start();
  open_group.comm = comm;
  open_group.stream = stream;
  open_group.messages.emplace_back([=](Communicator& ranks) { work(ranks, *element); });
  return group_end();
}

ncclResult_t get_unique_id(ncclUniqueId* id) {
  static std::atomic<std::uint64_t> made = 0;
  const std::uint64_t number = ++made;
  std::memcpy(id->internal, &number, sizeof number);
  return ncclSuccess;
}

ncclResult_t init_rank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (config == nullptr || config->blocking != 0) return ncclInvalidUsage;  // ranks are polled for
  const std::lock_guard lock(starts_mutex);
  std::shared_ptr<Start>& start = starts[number_of(id)];
  if (!start) {
    const ThreadCommunicatorOptions options = {.watchdog_seconds = kWatchdogSeconds};
    start.reset(new Start{.streams = make_thread_communicators(ranks, options),
                          .splits = make_thread_communicators(ranks, options),
                          .absent = ranks});
  }
  const auto self = static_cast<std::size_t>(rank);
  if (self >= start->streams.size() || !start->streams[self]) return ncclInvalidArgument;
  *comm = new ncclComm{.streams = std::move(start->streams[self]), .splits = std::move(start->splits[self])};
  --start->absent;
  (*comm)->finished = [start] { return start->absent == 0; };
  return ncclInProgress;
}

ncclResult_t split(ncclComm_t comm, int color, int key, ncclComm_t* part, ncclConfig_t* config) {
  if (const ncclResult_t refused = refusal(comm); refused != ncclSuccess) return refused;
  if (config == nullptr || config->blocking != 0) return ncclInvalidUsage;
  *part = nullptr;
  const auto done = std::make_shared<std::atomic<bool>>(false);
  const auto worker = std::make_shared<std::jthread>([=, failed = comm->failed, splits = comm->splits] {
    try {
      std::shared_ptr<Communicator> streams = splits->split(color, key);
      std::shared_ptr<Communicator> copies = splits->split(color, key);
      if (streams) *part = new ncclComm{.streams = std::move(streams), .splits = std::move(copies)};
    } catch (const std::exception&) {
      *failed = true;
    }
    *done = true;
  });
  comm->finished = [done, worker] { return done->load(); };
  return ncclSuccess;  // so does NCCL, which has only begun
}

ncclResult_t async_error(ncclComm_t comm, ncclResult_t* state) {
  if (comm == nullptr || state == nullptr) return ncclInvalidArgument;
  const bool failed = *comm->failed;  // of calls before the one that is about to be in its stream
  *state = ncclInProgress;
  if (comm->finished) {
    if (!comm->finished()) return ncclSuccess;
    comm->finished = nullptr;
  }
  *state = failed ? ncclRemoteError : ncclSuccess;
  return ncclSuccess;
}

ncclResult_t destroy(ncclComm_t comm) {
  const ncclResult_t refused = refusal(comm);
  if (refused == ncclSuccess) delete comm;
  return refused;
}

ncclResult_t abort(ncclComm_t comm) {
  if (comm == nullptr) return ncclInvalidArgument;
  comm->streams->abort("ncclCommAbort");
  comm->splits->abort("ncclCommAbort");
  delete comm;
  return ncclSuccess;
}

const char* error_string(ncclResult_t result) {
  switch (result) {
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    default:
      return "unhandled system error";
  }
}
const char* last_error(ncclComm_t) {
  return "(emulated)";
}

ncclResult_t all_gather(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                        ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream, type, ncclSum, [=](Communicator& ranks, Element element, ReduceOp) {
    ranks.all_gather(send, receive, count, element);
  });
}
ncclResult_t reduce_scatter(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                            ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream, type, op, [=](Communicator& ranks, Element element, ReduceOp operation) {
    ranks.reduce_scatter(send, receive, count, element, operation);
  });
}
ncclResult_t all_reduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream, type, op, [=](Communicator& ranks, Element element, ReduceOp operation) {
    ranks.all_reduce(send, receive, count, element, operation);
  });
}
ncclResult_t broadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type, int root,
                       ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream, type, ncclSum, [=](Communicator& ranks, Element element, ReduceOp) {
    if (ranks.rank() == root && count > 0) std::memmove(receive, send, count * size_of(element));
    ranks.broadcast(receive, count, element, root);
  });
}
ncclResult_t send(const void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                  cudaStream_t stream) {
  return message(comm, stream, type,
                 [=](Communicator& ranks, Element element) { ranks.send(data, count, element, peer); });
}
ncclResult_t receive(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                     cudaStream_t stream) {
  return message(comm, stream, type,
                 [=](Communicator& ranks, Element element) { ranks.receive(data, count, element, peer); });
}

}  // namespace

const NcclLibrary& nccl_library() {
  static constexpr NcclLibrary kLibrary = {.get_unique_id = get_unique_id,
                                           .init_rank = init_rank,
                                           .split = split,
                                           .destroy = destroy,
                                           .abort = abort,
                                           .async_error = async_error,
                                           .error_string = error_string,
                                           .last_error = last_error,
                                           .all_gather = all_gather,
                                           .reduce_scatter = reduce_scatter,
                                           .all_reduce = all_reduce,
                                           .broadcast = broadcast,
                                           .send = send,
                                           .receive = receive,
                                           .group_start = group_start,
                                           .group_end = group_end};
  return kLibrary;
}

}  // namespace strata
