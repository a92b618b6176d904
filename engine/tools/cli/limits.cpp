#include "engine/tools/cli/limits.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <system_error>

#include "base/bytes.h"
#include "base/error.h"
#include "base/host_memory.h"

namespace strata {
namespace {

constexpr const char* kUnlimitedName = "unlimited";

/// "4096", or "unlimited".
std::string limit_of(int resource, rlim_t unit = 1) {
  rlimit limit{};
  ::getrlimit(static_cast<__rlimit_resource>(resource), &limit);
  return limit.rlim_cur == RLIM_INFINITY ? kUnlimitedName : fmt::format("{}", limit.rlim_cur / unit);
}

}  // namespace

void prepare_stacks() {
  constexpr rlim_t kStack = 8 * MiB;  // the system's own default
  constexpr rlim_t kLeast = MiB;
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  std::size_t of_threads = 0;
  ::pthread_getattr_default_np(&attributes);
  ::pthread_attr_getstacksize(&attributes, &of_threads);
  if (of_threads < kLeast) {
    ::pthread_attr_setstacksize(&attributes, kStack);
    ::pthread_setattr_default_np(&attributes);
  }
  ::pthread_attr_destroy(&attributes);
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kLeast) return;
  limit.rlim_cur = std::min(limit.rlim_max, kStack);
  if (limit.rlim_cur >= kLeast && ::setrlimit(RLIMIT_STACK, &limit) == 0) return;
  throw ConfigError(
      fmt::format("the stack may have only {} KiB (ulimit -s), and {} KiB are needed: raise the limit",
                  limit_of(RLIMIT_STACK, KiB), kLeast / KiB));
}

void refuse_small_machine() {
  constexpr Bytes kLeast = 125 * MiB;  // of host_budget.cpp's figures the one that no rank shares
  const Bytes limit = memory_limit(), usable = usable_memory();
  if (limit < kLeast)
    throw ConfigError(fmt::format(
        "this machine, or its container, has {} of memory, and a run takes {} before any of the model "
        "is held: give the container more",
        format_bytes(limit), format_bytes(kLeast)));
  // Libraries that find no addresses for code that they make end in a signal.
  if (usable < kLeast)
    throw ConfigError(fmt::format(
        "this process may map {} KiB (ulimit -v) and {} of them are left; a run takes {} before any of the "
        "model is held: raise the limit",
        limit_of(RLIMIT_AS, KiB), format_bytes(usable), format_bytes(kLeast)));
}

std::string sentence_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return fmt::format(
        "memory is missing: the machine, or its container, has {}, and this process may map {} KiB (ulimit "
        "-v); lower the memory budgets, or raise the limit",
        format_bytes(memory_limit()), limit_of(RLIMIT_AS, KiB));
  }
  const auto* const of_system = dynamic_cast<const std::system_error*>(&error);
  if (of_system == nullptr || of_system->code() != std::errc::resource_unavailable_try_again)
    return error.what();
  const std::string addresses = limit_of(RLIMIT_AS, KiB);
  return fmt::format(
      "a thread cannot be started: the user's limit of processes and threads (ulimit -u) is {}, and a "
      "container may have a lower one (pids.max){}; raise it",
      limit_of(RLIMIT_NPROC),
      addresses == kUnlimitedName ? ""
                                  : fmt::format(", or memory is missing (ulimit -v is {} KiB)", addresses));
}

}  // namespace strata
