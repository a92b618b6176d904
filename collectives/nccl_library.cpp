// Not in a unity build: programs that emulate NCCL have one of their own.
#include "collectives/nccl_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

#include "base/error.h"

namespace strata {
namespace {

class Library {
 public:
  Library() : handle_(dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL)) {
    if (handle_) return;
    throw CommError(fmt::format(
        "ranks on GPUs need NCCL: {}; install libnccl2 or add its folder to LD_LIBRARY_PATH", dlerror()));
  }
  template <class Function>
  void find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(dlsym(handle_, name));
    if (!function)
      throw CommError(fmt::format("libnccl.so.2 has no {}; NCCL 2.18 is the oldest that will do", name));
  }

 private:
  void* handle_;  // for the life of the process
};

NcclLibrary load() {
  // GPUs begin exchanges of different groups in the order of the calls, which is one on all ranks. NCCL
  // before 2.26 does not know it.
  constexpr int kOverwrite = 0;
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", kOverwrite);
  const Library library;
  NcclLibrary functions{};
  library.find("ncclGetUniqueId", functions.get_unique_id);
  library.find("ncclCommInitRankConfig", functions.init_rank);
  library.find("ncclCommSplit", functions.split);
  library.find("ncclCommDestroy", functions.destroy);
  library.find("ncclCommAbort", functions.abort);
  library.find("ncclCommGetAsyncError", functions.async_error);
  library.find("ncclGetErrorString", functions.error_string);
  library.find("ncclGetLastError", functions.last_error);
  library.find("ncclAllGather", functions.all_gather);
  library.find("ncclReduceScatter", functions.reduce_scatter);
  library.find("ncclAllReduce", functions.all_reduce);
  library.find("ncclBroadcast", functions.broadcast);
  library.find("ncclSend", functions.send);
  library.find("ncclRecv", functions.receive);
  library.find("ncclGroupStart", functions.group_start);
  library.find("ncclGroupEnd", functions.group_end);
  return functions;
}

}  // namespace

const NcclLibrary& nccl_library() {
  static const NcclLibrary library = load();
  return library;
}

}  // namespace strata
