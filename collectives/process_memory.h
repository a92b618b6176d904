// The memory of other processes of this host: the kernel copies from it, if it lets this process look.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace strata {

/// How a process shows others that it is its memory that they read, and not that of another which has its
/// number elsewhere.
struct ProcessMark {
  pid_t process;
  std::uintptr_t token_at;
  std::uint64_t token;
};
ProcessMark mark_of_this_process();

/// Whether memory of the process that made the mark can be read here.
bool can_read(const ProcessMark& mark);

/// Copies from the memory of another process. Throws IoError if the kernel refuses, or the process is
/// gone.
void read_memory(pid_t process, std::uintptr_t from, std::byte* to, std::size_t bytes);

}  // namespace strata
