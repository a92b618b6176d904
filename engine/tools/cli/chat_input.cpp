#include "engine/tools/cli/chat_input.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <iostream>
#include <string_view>

#include "engine/tools/report/progress_text.h"

namespace strata {
namespace {

constexpr char kEndOfInput = 4, kEscape = 27, kDelete = 127, kBackspace = 8, kEraseLine = 21;
/// A terminal then says where a pasted text begins and ends.
constexpr std::string_view kMarkPastes = "\033[?2004h", kMarkNoPastes = "\033[?2004l";
constexpr double kSequenceSeconds = 0.5;  ///< the bytes of one key come together, or nearly so

std::atomic<bool> interrupted = false, ended = false;

void note(int signal) {
  (signal == SIGINT ? interrupted : ended) = true;
}

void set_handler(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;  // an interrupted write of an answer would fail, and with it all that follow
  ::sigaction(signal, &action, nullptr);
}

void show(std::string_view text) {
  std::cerr << text << std::flush;
}

bool is_of_character_before(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

}  // namespace

ChatInput::ChatInput() {
  if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDERR_FILENO) == 0) return;
  keys_ = std::make_unique<TerminalKeys>();
  for (const int signal : {SIGINT, SIGTERM}) set_handler(signal, note);
  show(kMarkPastes);
}

ChatInput::~ChatInput() {
  if (!is_terminal()) return;
  show(kMarkNoPastes);
  for (const int signal : {SIGINT, SIGTERM}) set_handler(signal, SIG_DFL);
}

std::optional<std::string> ChatInput::next() {
  if (is_terminal()) return next_of_terminal();
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  if (line.ends_with('\r')) line.pop_back();
  return line;
}

bool ChatInput::is_interrupted() const {
  return interrupted || ended;
}

std::optional<std::string> ChatInput::next_of_terminal() {
  constexpr double kLookSeconds = 0.2;  // a signal may come just before the wait for a key
  message_.clear();
  is_pasting_ = interrupted = false;
  show("> ");
  while (!is_interrupted()) {
    const std::optional<char> key = keys_->wait(kLookSeconds);
    if (!key) {
      if (keys_->is_gone()) break;
      continue;
    }
    if (*key == kEndOfInput && message_.empty()) break;
    if (*key == '\n' && !is_pasting_) {
      show("\n");
      return message_;
    }
    take(*key);
  }
  show("\n");
  return std::nullopt;
}

void ChatInput::take(char key) {
  if (key == kEscape) {
    read_sequence();
  } else if (key == kDelete || key == kBackspace) {
    erase_character();
  } else if (key == kEraseLine) {
    while (!message_.empty() && message_.back() != '\n') erase_character();
  } else if (key == '\n' || key == '\t' || static_cast<unsigned char>(key) >= ' ') {
    message_ += key;
    show({&key, 1});
  }
}

/// Reads a whole key that is none of a character, such as an arrow, and ignores it.
void ChatInput::read_sequence() {
  std::string sequence;
  while (const std::optional<char> key = keys_->wait(kSequenceSeconds)) {
    sequence += *key;
    const bool is_first = sequence.size() == 1;
    if (is_first ? *key != '[' && *key != 'O' : *key >= '@') break;
  }
  if (sequence == "[200~") is_pasting_ = true;
  if (sequence == "[201~") is_pasting_ = false;
}

/// Back to the line's begin at most: a terminal does not go up.
void ChatInput::erase_character() {
  if (message_.empty() || message_.back() == '\n') return;
  std::size_t begin = message_.size() - 1;
  while (begin > 0 && is_of_character_before(message_[begin])) --begin;
  for (std::size_t column = columns_of(message_.substr(begin)); column > 0; --column) show("\b \b");
  message_.resize(begin);
}

}  // namespace strata
