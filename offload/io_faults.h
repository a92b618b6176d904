// Makes disks fail in tests: consulted before every block operation of a store, whichever engine carries it
// out.
#pragma once

#include <string_view>

#include "base/bytes.h"

namespace strata {

/// One operation on one file, as the engine is about to start it.
struct BlockAttempt {
  bool write;
  std::string_view path;
  Bytes offset, length;  ///< in the file
};

/// What happens to one operation; at most one of `error` and the others.
struct BlockFault {
  static constexpr Bytes kAll = -1;

  int error = 0;             ///< an errno: the operation fails with it and touches nothing
  Bytes limit = kAll;        ///< this many bytes are carried out and reported; 0 looks like the file's end
  bool torn = false;         ///< with `limit`: success is reported nevertheless
  Bytes flipped_bit = -1;    ///< this bit of what was read is wrong, counted from the operation's first byte
  double delay_seconds = 0;  ///< the operation starts so much later, and so do those after it in its queue
};

/// Called from the threads of all queues at once.
class IoFaults {
 public:
  virtual ~IoFaults() = default;
  virtual BlockFault before(const BlockAttempt& attempt) = 0;
  /// An errno with which a call that sets the store up fails: "open", "fallocate" or "io_uring_setup". 0: it
  /// is made.
  virtual int setup_error(std::string_view /*call*/) { return 0; }
};

}  // namespace strata
