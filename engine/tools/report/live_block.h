// Lines on a terminal that are redrawn in place, on standard error. The cursor rests behind the last line. So
// a failing command, which prints at once, overwrites that line alone. One caller at a time of each block. A
// process draws one.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace strata {

struct TerminalSize {
  std::size_t columns = 120, rows = 24;
};
/// That of the terminal at `descriptor`; if it does not tell, the default.
TerminalSize terminal_size_at(int descriptor);
/// That of standard error.
TerminalSize terminal_size();

/// No progress is shown any more, and the terminal is as it was found: what follows are the command's last
/// words. Any thread may call.
void end_live_output();
/// Prints whole lines that stay, above the block that is drawn, if one is. Any thread may call.
void say_above_blocks(const std::string& lines);

class LiveBlock {
 public:
  LiveBlock() = default;
  ~LiveBlock();
  LiveBlock(const LiveBlock&) = delete;
  LiveBlock& operator=(const LiveBlock&) = delete;

  /// Instead of the lines drawn before. REQUIRES: none is longer than the terminal is wide, and all of them
  /// fit its height.
  void draw(std::vector<std::string> lines);
  /// Prints a line that stays, above the block if one is drawn.
  void say(const std::string& line);
  /// Prints a line that stands for the block where there is no terminal to draw on.
  void say_progress(const std::string& line);
  /// Leaves the block as it is and ends its last line; call before anything else is printed.
  void finish();

 private:
  friend void end_live_output();
  friend void say_above_blocks(const std::string& lines);
  void print_above(const std::string& lines);
  std::string to_its_start() const;

  std::vector<std::string> lines_;  ///< drawn
};

}  // namespace strata
