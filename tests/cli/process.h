// A program run as a child process: its exit status and everything it says, with deadlines instead of hangs.
// One thread.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace strata::test {

/// What a process left behind.
struct Outcome {
  int status = 0;  ///< exit status, or minus the signal that ended it
  std::string out, err;
  double seconds = 0;
  Bytes peak_resident_bytes = 0;
};

/// A running program. Whatever happens to the test, it does not outlive the object.
class Process {
 public:
  struct Options {
    std::filesystem::path folder;            ///< the current directory of the program
    std::optional<Bytes> largest_file = {};  ///< writing beyond it fails, as on a full disk
  };

  Process(const std::string& program, const std::vector<std::string>& arguments, const Options& options);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t id() const { return id_; }
  void send(int signal) const;
  /// Reads until the program ends. Fails the test if that takes more than two minutes.
  Outcome wait();

 private:
  pid_t id_ = -1;
  int out_ = -1, err_ = -1;
  double started_seconds_ = 0;
};

/// Processes that `parent` has started.
std::vector<pid_t> children_of(pid_t parent);

/// A named pipe that a program writes lines to: a file to it, and to the test a way to wait for what it
/// reports. One object per run of the program.
class LinePipe {
 public:
  explicit LinePipe(const std::filesystem::path& path);
  ~LinePipe();
  LinePipe(const LinePipe&) = delete;
  LinePipe& operator=(const LinePipe&) = delete;

  /// True when `lines` more lines have come; false if the writer ended before, or after two minutes.
  bool wait_for_lines(int lines);
  /// Takes what comes within this time, if anything does.
  void listen_for(double seconds);

 private:
  /// False if nothing can come any more within `seconds`.
  bool read_some(double seconds);

  int descriptor_ = -1;
  std::string text_;
};

}  // namespace strata::test
