#include "child.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace uroce::testing {

Child::Child(const std::vector<std::string>& arguments) {
  std::array<int, 2> to{};
  std::array<int, 2> from{};
  if (pipe2(to.data(), O_CLOEXEC) != 0 || pipe2(from.data(), O_CLOEXEC) != 0) {
    std::perror("pipe2");
    std::abort();
  }
  std::vector<std::string> words = arguments;
  words.insert(words.begin(), "ports_test");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    dup2(to[0], STDIN_FILENO);
    dup2(from[1], STDOUT_FILENO);
    execv("/proc/self/exe", argv.data());
    _exit(127);
  }
  close(to[0]);
  close(from[1]);
  to_ = to[1];
  from_ = from[0];
}

Child::~Child() {
  if (pid_ > 0) kill();
  close(from_);
}

std::string Child::read_line() {
  std::string line;
  for (char c = 0; read(from_, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

int Child::wait() {
  int status = 0;
  const pid_t child = std::exchange(pid_, -1);
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int Child::finish() {
  close(std::exchange(to_, -1));
  return wait();
}

void Child::pause() {
  ::kill(pid_, SIGSTOP);
  waitpid(pid_, nullptr, WUNTRACED);
}

void Child::resume() { ::kill(pid_, SIGCONT); }

void Child::kill(int signal) {
  ::kill(pid_, signal);
  if (to_ >= 0) close(std::exchange(to_, -1));
  wait();
}

}  // namespace uroce::testing
