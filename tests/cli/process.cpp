#include "tests/cli/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <stdexcept>

namespace strata::test {
namespace {

/// Less than a case may take, so that a program that hangs is said by the case that started it.
constexpr double kDeadlineSeconds = 0.4 * STRATA_TEST_TIMEOUT;

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int milliseconds(double seconds) {
  return static_cast<int>(std::max(seconds, 0.0) * 1000);
}

/// Appends what the descriptor has; false at its end.
bool append(int descriptor, std::string& text) {
  std::array<char, 4096> buffer;
  const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
  if (count > 0) text.append(buffer.data(), static_cast<std::size_t>(count));
  return count > 0;
}

/// In the child, between fork and exec: only calls that are safe there.
[[noreturn]] void become(const std::vector<char*>& arguments, const Process::Options& options, int out,
                         int err) {
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  if (options.largest_file) {
    const auto limit = static_cast<rlim_t>(*options.largest_file);
    const rlimit limits{limit, limit};
    ::setrlimit(RLIMIT_FSIZE, &limits);
    ::signal(SIGXFSZ, SIG_IGN);  // the write then fails with EFBIG instead
  }
  if (::chdir(options.folder.c_str()) == 0) ::execv(arguments[0], arguments.data());
  ::_exit(127);
}

}  // namespace

Process::Process(const std::string& program, const std::vector<std::string>& arguments,
                 const Options& options) {
  std::vector<std::string> texts = {program};
  texts.insert(texts.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  std::array<int, 2> out, err;
  if (::pipe2(out.data(), O_CLOEXEC) != 0 || ::pipe2(err.data(), O_CLOEXEC) != 0) {
    throw std::runtime_error("cannot make a pipe");
  }
  started_seconds_ = now_seconds();
  id_ = ::fork();
  if (id_ < 0) throw std::runtime_error("cannot fork");
  if (id_ == 0) become(pointers, options, out[1], err[1]);
  ::close(out[1]);
  ::close(err[1]);
  out_ = out[0];
  err_ = err[0];
}

Process::~Process() {
  if (id_ > 0) {
    ::kill(id_, SIGKILL);
    ::waitpid(id_, nullptr, 0);
  }
  ::close(out_);
  ::close(err_);
}

void Process::send(int signal) const {
  ::kill(id_, signal);
}

Outcome Process::wait() {
  Outcome outcome;
  std::array<pollfd, 2> streams = {pollfd{out_, POLLIN, 0}, pollfd{err_, POLLIN, 0}};
  std::array<std::string*, 2> texts = {&outcome.out, &outcome.err};
  while (streams[0].fd >= 0 || streams[1].fd >= 0) {
    const double left = started_seconds_ + kDeadlineSeconds - now_seconds();
    if (left < 0 || ::poll(streams.data(), streams.size(), milliseconds(left)) == 0) {
      ADD_FAILURE() << "the program did not end; it said:\n" << outcome.out << outcome.err;
      send(SIGKILL);
      break;
    }
    for (std::size_t i = 0; i < streams.size(); ++i) {
      if (streams[i].revents != 0 && !append(streams[i].fd, *texts[i])) streams[i].fd = -1;
    }
  }
  int status = 0;
  rusage usage{};
  ::wait4(id_, &status, 0, &usage);
  id_ = -1;
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  outcome.seconds = now_seconds() - started_seconds_;
  outcome.peak_resident_bytes = usage.ru_maxrss * KiB;
  return outcome;
}

std::vector<pid_t> children_of(pid_t parent) {
  std::ifstream file(fmt::format("/proc/{0}/task/{0}/children", parent));
  std::vector<pid_t> children;
  for (pid_t child = 0; file >> child;) children.push_back(child);
  return children;
}

LinePipe::LinePipe(const std::filesystem::path& path) {
  // Without O_NONBLOCK opening would wait for the program. A new descriptor forgets writers that are gone.
  const bool made = ::mkfifo(path.c_str(), 0600) == 0 || errno == EEXIST;
  if (made) descriptor_ = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor_ < 0) throw std::runtime_error("cannot make the pipe " + path.string());
}

LinePipe::~LinePipe() {
  ::close(descriptor_);
}

bool LinePipe::read_some(double seconds) {
  pollfd stream{descriptor_, POLLIN, 0};
  return ::poll(&stream, 1, milliseconds(seconds)) > 0 && append(descriptor_, text_);
}

bool LinePipe::wait_for_lines(int lines) {
  const double deadline = now_seconds() + kDeadlineSeconds;
  for (; lines > 0; --lines) {
    while (text_.find('\n') == std::string::npos) {
      if (!read_some(deadline - now_seconds())) return false;
    }
    text_.erase(0, text_.find('\n') + 1);
  }
  return true;
}

void LinePipe::listen_for(double seconds) {
  const double deadline = now_seconds() + seconds;
  while (read_some(deadline - now_seconds())) {
  }
}

}  // namespace strata::test
