// Not in a unity build: programs that emulate NCCL have one of their own.
#include "collectives/nccl_library.h"

#include <fmt/format.h>

#include <cstdlib>

#include "base/error.h"
#include "base/shared_library.h"

namespace strata {
namespace {

NcclLibrary load() {
  // GPUs begin exchanges of different groups in the order of the calls, which is one on all ranks. NCCL
  // before 2.26 does not know it.
  constexpr int kOverwrite = 0;
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", kOverwrite);
  void* library = load_library("libnccl.so.2");
  if (library == nullptr)
    throw CommError(
        fmt::format("ranks on GPUs need NCCL: {}; install libnccl2 or add its folder to LD_LIBRARY_PATH",
                    why_not_loaded()));
  const FunctionsOf<CommError> nccl(library, "libnccl.so.2", "NCCL 2.18 is the oldest that will do");
  NcclLibrary functions{};
  nccl.find("ncclGetUniqueId", functions.get_unique_id);
  nccl.find("ncclCommInitRankConfig", functions.init_rank);
  nccl.find("ncclCommSplit", functions.split);
  nccl.find("ncclCommDestroy", functions.destroy);
  nccl.find("ncclCommAbort", functions.abort);
  nccl.find("ncclCommGetAsyncError", functions.async_error);
  nccl.find("ncclGetErrorString", functions.error_string);
  nccl.find("ncclGetLastError", functions.last_error);
  nccl.find("ncclAllGather", functions.all_gather);
  nccl.find("ncclReduceScatter", functions.reduce_scatter);
  nccl.find("ncclAllReduce", functions.all_reduce);
  nccl.find("ncclBroadcast", functions.broadcast);
  nccl.find("ncclSend", functions.send);
  nccl.find("ncclRecv", functions.receive);
  nccl.find("ncclGroupStart", functions.group_start);
  nccl.find("ncclGroupEnd", functions.group_end);
  return functions;
}

}  // namespace

const NcclLibrary& nccl_library() {
  static const NcclLibrary library = load();
  return library;
}

}  // namespace strata
