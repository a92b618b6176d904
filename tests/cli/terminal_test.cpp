// A run on a terminal: the panel that a key opens, and that the terminal is left as it was found.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include "tests/cli/workspace.h"
#include "tests/report/terminal.h"

namespace strata::test {
namespace {

/// What a program may do with the terminal that is its input: a shell puts it in the foreground; in some
/// containers the terminal does not control it.
enum class Control { foreground, none };

/// In a new session: starts the program as a shell does, and ends as it does.
[[noreturn]] void start_as_shell(const std::vector<char*>& arguments, const std::filesystem::path& folder,
                                 int tell, Control control) {
  ::signal(SIGTTOU, SIG_IGN);
  const pid_t id = ::fork();
  if (id == 0) {
    if (control == Control::none) {
      ::setsid();
    } else {
      ::setpgid(0, 0);
      ::tcsetpgrp(STDIN_FILENO, ::getpid());
    }
    ::signal(SIGTTOU, SIG_DFL);
    ::close(tell);
    if (::chdir(folder.c_str()) == 0) ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  int status = 0;
  const bool told = ::write(tell, &id, sizeof id) == sizeof id;
  ::waitpid(id, &status, 0);
  ::_exit(!told ? 127 : (WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)));
}

/// The program on a terminal of its own.
class OnTerminal {
 public:
  OnTerminal(const std::filesystem::path& folder, const Arguments& arguments, unsigned short columns = 100,
             Control control = Control::foreground) {
    std::vector<std::string> texts = {STRATA_PROGRAM};
    texts.insert(texts.end(), arguments.begin(), arguments.end());
    std::vector<char*> pointers;
    pointers.reserve(texts.size() + 1);
    for (std::string& text : texts) pointers.push_back(text.data());
    pointers.push_back(nullptr);
    winsize size = {.ws_row = 30, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    std::array<int, 2> told;
    EXPECT_EQ(::pipe(told.data()), 0);
    shell_ = ::forkpty(&terminal_, nullptr, nullptr, &size);
    if (shell_ == 0) start_as_shell(pointers, folder, told[1], control);
    found_ = settings();
    ::close(told[1]);
    EXPECT_EQ(::read(told[0], &id_, sizeof id_), static_cast<ssize_t>(sizeof id_));
    ::close(told[0]);
  }
  ~OnTerminal() {
    if (shell_ > 0) {
      ::kill(id_, SIGKILL);
      ::waitpid(shell_, nullptr, 0);
    }
    ::close(terminal_);
  }
  OnTerminal(const OnTerminal&) = delete;
  OnTerminal& operator=(const OnTerminal&) = delete;

  void press(char key) const { type({key}); }
  void type(const std::string& keys) const {
    ASSERT_EQ(::write(terminal_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  void send(int signal) const { ::kill(id_, signal); }
  std::string screen() const {
    std::string text;
    for (const std::string& line : screen_.lines()) text += line + "\n";
    return text;
  }
  /// Whether the screen comes to show the text, or no more.
  bool comes_to(bool shows, const std::string& text) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while ((screen().find(text) != std::string::npos) != shows) {
      if (std::chrono::steady_clock::now() > deadline || !read_some()) return false;
    }
    return true;
  }
  bool shows(const std::string& text) { return comes_to(true, text); }
  bool shows_no_more(const std::string& text) { return comes_to(false, text); }

  /// Whether keys are handed over at once.
  bool listens() const { return (settings().c_lflag & (ICANON | ECHO)) == 0; }
  bool is_as_found() const {
    const termios now = settings();
    return now.c_lflag == found_.c_lflag && now.c_iflag == found_.c_iflag && now.c_oflag == found_.c_oflag;
  }
  template <typename Condition>
  bool until(const Condition& condition) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      read_some(20);
    }
    return true;
  }
  bool comes_to_be_stopped() {
    return until([&] {
      std::ifstream file(fmt::format("/proc/{}/stat", id_));
      std::string number, name, state;
      return file >> number >> name >> state && state == "T";
    });
  }
  /// Its exit status, or minus the signal that ended it.
  int wait() {
    while (read_some()) {
    }
    int status = 0;
    ::waitpid(shell_, &status, 0);
    shell_ = -1;
    const int own = WEXITSTATUS(status);
    return own >= 128 ? 128 - own : own;
  }

 private:
  static constexpr auto kPatience = std::chrono::seconds(60);

  termios settings() const {
    termios settings = {};
    ::tcgetattr(terminal_, &settings);
    return settings;
  }
  bool read_some(int milliseconds = 60'000) {
    pollfd end = {terminal_, POLLIN, 0};
    if (::poll(&end, 1, milliseconds) <= 0) return false;
    std::array<char, 4096> buffer;
    const ssize_t count = ::read(terminal_, buffer.data(), buffer.size());
    if (count <= 0) return false;
    rest_.append(buffer.data(), static_cast<std::size_t>(count));
    const std::size_t whole = end_of_whole(rest_);
    screen_.show(rest_.substr(0, whole));
    rest_.erase(0, whole);
    return true;
  }
  /// What comes behind the last line's end may be half a command.
  static std::size_t end_of_whole(const std::string& text) {
    const std::size_t escape = text.rfind('\033');
    if (escape == std::string::npos) return text.size();
    return text.find_first_of("KJAhl", escape) == std::string::npos ? escape : text.size();
  }

  pid_t shell_ = -1, id_ = -1;
  int terminal_ = -1;
  termios found_ = {};
  Terminal screen_;
  std::string rest_;
};

class RunsOnATerminal : public Workspace {
 protected:
  void SetUp() override { ::setenv("LC_ALL", "C", 1); }
  void TearDown() override { ::unsetenv("LC_ALL"); }

  /// Takes minutes, unless it is stopped.
  static Arguments long_run(Arguments overrides = {}) {
    overrides.insert(overrides.end(),
                     {"train.steps=100000", "memory.device=128KiB", "device.link.h2d=4MB/s"});
    return train("run.yaml", overrides);
  }
};

TEST_F(RunsOnATerminal, ShowAPanelAndTakeItAway) {
  OnTerminal run(path("."), long_run());
  ASSERT_TRUE(run.shows("press p for memory, lanes and the loss")) << run.screen();
  ASSERT_TRUE(run.shows("step 1")) << run.screen();
  ASSERT_TRUE(run.until([&] { return run.listens(); }));
  for (const char key : {'p', '\t'}) {
    run.press(key);
    for (const std::string text : {"device   ", "planned of 128", "compute  ", "loss     "})
      ASSERT_TRUE(run.shows(text)) << text << "\n" << run.screen();
    run.press(key);
    ASSERT_TRUE(run.shows_no_more("planned of 128")) << run.screen();
    ASSERT_TRUE(run.shows(" tok")) << run.screen();
  }
  run.send(SIGINT);
  EXPECT_EQ(run.wait(), 1);
  EXPECT_TRUE(run.is_as_found());
  EXPECT_NE(run.screen().find("stopped after step"), std::string::npos) << run.screen();
}

TEST_F(RunsOnATerminal, HoldAConversation) {
  make_chat_model("model");
  OnTerminal chat(path("."),
                  {"chat", "model", "--temperature", "0", "--max-tokens", "2000", "--json", "talk.json"});
  ASSERT_TRUE(chat.shows("/exit or Ctrl-D ends")) << chat.screen();
  ASSERT_TRUE(chat.until([&] { return chat.listens(); }));
  chat.type("\033[200~two\nlines\033[201~, and\033[A more\177\177re?\n");
  ASSERT_TRUE(chat.shows("lines, and more?\n")) << chat.screen();
  ASSERT_TRUE(chat.until([&] { return chat.screen().size() > 200; })) << chat.screen();
  chat.press(3);  // Ctrl-C
  ASSERT_TRUE(chat.until([&] { return chat.screen().ends_with("\n>\n"); })) << chat.screen();
  chat.type("/reset\nnever said");
  chat.press(21);  // Ctrl-U
  chat.type("Hi!\n");
  const std::string said = "> Hi!\n";
  ASSERT_TRUE(chat.until([&] {
    const std::string screen = chat.screen();
    return screen.find(said) < screen.size() - said.size();
  })) << chat.screen();
  chat.press(3);
  ASSERT_TRUE(chat.until([&] { return chat.screen().ends_with("\n>\n"); })) << chat.screen();
  chat.press(3);
  EXPECT_EQ(chat.wait(), 0) << chat.screen();
  EXPECT_TRUE(chat.is_as_found());
  EXPECT_EQ(chat.screen().find("the answer is cut"), std::string::npos) << chat.screen();
  const nlohmann::json messages = nlohmann::json::parse(std::ifstream(path("talk.json")))["messages"];
  ASSERT_EQ(messages.size(), 2U) << "since /reset";
  EXPECT_EQ(messages[0]["content"], "Hi!");
}

TEST_F(RunsOnATerminal, HoldAConversationOnOneThatDoesNotControlThem) {
  make_chat_model("model");
  OnTerminal chat(path("."),
                  {"chat", "model", "--temperature", "0", "--max-tokens", "5", "--json", "talk.json"}, 100,
                  Control::none);
  ASSERT_TRUE(chat.shows("/exit or Ctrl-D ends")) << chat.screen();
  ASSERT_TRUE(chat.until([&] { return chat.listens(); }));
  chat.type("/help\nHi!\n");
  ASSERT_TRUE(chat.shows("the answer is cut at 5 tokens")) << chat.screen();
  EXPECT_NE(chat.screen().find("\nCtrl-C stops an answer"), std::string::npos) << chat.screen();
  chat.type("/exit\n");
  EXPECT_EQ(chat.wait(), 0) << chat.screen();
  EXPECT_TRUE(chat.is_as_found());
  EXPECT_EQ(nlohmann::json::parse(std::ifstream(path("talk.json")))["messages"].size(), 2U);
}

TEST_F(RunsOnATerminal, FitANarrowOne) {
  write("sweep.yaml", run_file() + "sweep: {train.seed: [3, 4]}\n");
  for (const std::string run_file : {"run.yaml", "sweep.yaml"}) {
    Arguments arguments = long_run();
    arguments[1] = run_file;
    OnTerminal run(path("."), arguments, 40);
    ASSERT_TRUE(run.shows("press p")) << run.screen();
    ASSERT_TRUE(run.until([&] { return run.listens(); }));
    run.press('p');
    ASSERT_TRUE(run.shows("compute  ")) << run.screen();
    ASSERT_TRUE(run.shows("loss     ")) << run.screen();
    run.send(SIGTERM);
    EXPECT_EQ(run.wait(), 1);
    EXPECT_TRUE(run.is_as_found());
  }
}

/// Its line would be cut at the end, where the time left stands.
TEST_F(RunsOnATerminal, ShowWhatMattersInEightyColumns) {
  OnTerminal run(path("."), long_run(), 80);
  ASSERT_TRUE(run.shows(" left")) << run.screen();
  for (const std::string text : {"loss ", " tok/s", "device ", "host "})
    EXPECT_NE(run.screen().find(text), std::string::npos) << text << "\n" << run.screen();
  run.send(SIGINT);
  EXPECT_EQ(run.wait(), 1);
}

TEST_F(RunsOnATerminal, LeaveItAsItWasHoweverTheyEnd) {
  for (const int signal : {SIGQUIT, SIGABRT}) {
    OnTerminal run(path("."), long_run());
    ASSERT_TRUE(run.until([&] { return run.listens(); })) << run.screen();
    run.send(signal);
    EXPECT_EQ(run.wait(), -signal);
    EXPECT_TRUE(run.is_as_found()) << signal;
  }
  OnTerminal done(path("."), train("run.yaml"));
  EXPECT_EQ(done.wait(), 0);
  EXPECT_TRUE(done.is_as_found());
}

TEST_F(RunsOnATerminal, GiveItBackWhileTheyAreStopped) {
  OnTerminal run(path("."), long_run());
  ASSERT_TRUE(run.until([&] { return run.listens(); })) << run.screen();
  run.press('\x1A');  // Ctrl-Z
  ASSERT_TRUE(run.comes_to_be_stopped());
  EXPECT_TRUE(run.is_as_found());
  run.send(SIGCONT);
  ASSERT_TRUE(run.until([&] { return run.listens(); }));
  run.press('p');
  EXPECT_TRUE(run.shows("planned of 128")) << run.screen();
  run.send(SIGINT);
  EXPECT_EQ(run.wait(), 1);
}

/// All that a command prints there.
std::vector<std::string> printed(const std::filesystem::path& folder, const Arguments& arguments,
                                 unsigned short columns) {
  OnTerminal command(folder, arguments, columns);
  EXPECT_EQ(command.wait(), 0) << command.screen();
  std::vector<std::string> lines;
  std::istringstream screen(command.screen());
  for (std::string line; std::getline(screen, line);) lines.push_back(line);
  return lines;
}

using PrintedOnATerminal = RunsOnATerminal;

TEST_F(PrintedOnATerminal, LinesAreAsWideAsItAndNoWordIsCut) {
  const auto words_of = [](const std::vector<std::string>& lines) {
    std::istringstream text(fmt::format("{}", fmt::join(lines, "\n")));
    return std::vector<std::string>(std::istream_iterator<std::string>(text), {});
  };
  for (const Arguments& command : {Arguments{"--help"},
                                   {"generate", "--help"},
                                   {"plan", "run.yaml"},
                                   {"plan", "run.yaml", "--simulate"},
                                   {"explain", "run.yaml", "--on", "h200"}}) {
    const std::vector<std::string> narrow = printed(path("."), command, 80);
    EXPECT_EQ(words_of(narrow), words_of(printed(path("."), command, 1000))) << command[0];
    for (const std::string& line : narrow) EXPECT_LE(line.size(), 80U) << line;
  }
  const std::vector<std::string> search = printed(path("."), {"plan", "run.yaml", "--search"}, 80);
  EXPECT_THAT(search.back(), ::testing::StartsWith("take it with --set ")) << "a line to copy";
}

TEST_F(PrintedOnATerminal, ALongCommandShowsWhatItPlansAndThenTheAnswerAlone) {
  OnTerminal command(path("."),
                     {"explain", "run.yaml", "--set", "train.batch=16", "--set", "memory.device=160KiB"});
  EXPECT_TRUE(command.shows("planning ")) << command.screen();
  EXPECT_EQ(command.wait(), 0);
  EXPECT_TRUE(command.screen().starts_with("The step\n")) << command.screen();
  EXPECT_EQ(command.screen().find("planning "), std::string::npos) << command.screen();
}

TEST_F(RunsOnATerminal, SayWhatLanesDoAboveThePanel) {
  OnTerminal run(path("."), long_run());
  ASSERT_TRUE(run.until([&] { return run.listens(); })) << run.screen();
  run.press('p');
  ASSERT_TRUE(run.shows("planned of 128")) << run.screen();
  run.send(SIGUSR2);
  ASSERT_TRUE(run.shows("now: compute")) << run.screen();
  EXPECT_TRUE(run.until([&] {
    const std::string screen = run.screen();
    const std::size_t panel = screen.rfind("planned of 128");
    return panel != std::string::npos && panel > screen.find("now: compute");
  })) << run.screen();
}

}  // namespace
}  // namespace strata::test
