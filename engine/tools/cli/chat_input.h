// Messages as a user writes them, one after another. On a terminal each key is handed over at once. So a
// message may be of any length, and what is pasted is one message, however many lines it has. From a file or
// a pipe, each line is a message. One at a time in a process; one thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "engine/tools/report/terminal_keys.h"

namespace strata {

class ChatInput {
 public:
  /// Takes over the terminal, if standard input and standard error are one, and SIGINT and SIGTERM with it.
  ChatInput();
  ~ChatInput();
  ChatInput(const ChatInput&) = delete;
  ChatInput& operator=(const ChatInput&) = delete;

  bool is_terminal() const { return keys_ != nullptr; }
  /// The next message, without its line's end. Nothing at the end of the input, and after Ctrl-C or Ctrl-D at
  /// the prompt.
  std::optional<std::string> next();
  /// Whether Ctrl-C was pressed since next() returned.
  bool is_interrupted() const;

 private:
  std::optional<std::string> next_of_terminal();
  /// What follows an escape character.
  void read_sequence();
  void take(char key);
  void erase_character();

  std::unique_ptr<TerminalKeys> keys_;  ///< null: the input is no terminal
  std::string message_;                 ///< so far
  bool is_pasting_ = false;
};

}  // namespace strata
