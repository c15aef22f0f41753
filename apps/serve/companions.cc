// Decision: companions are made by fork(), with PR_SET_PDEATHSIG, so that none outlives a killed service.
#include "apps/serve/companions.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "apps/launch/installation.h"
#include "engine/platform/log.h"

namespace uroce::serve {
namespace {

/// The environment of this process, but for what would lead a program to other devices than the service's.
std::vector<std::string> environment_for(const std::string& socket) {
  constexpr std::string_view kNot[] = {"UROCE_CONFIG=", "UROCE_CONFIG_TEXT=", "UROCE_SERVICE=", "LISTEN_"};
  std::vector<std::string> environment{"UROCE_SERVICE=" + socket};
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string_view text = *one;
    if (std::ranges::none_of(kNot, [&](std::string_view begin) { return text.starts_with(begin); }))
      environment.emplace_back(text);
  }
  return environment;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// In the child, whose other threads are not there: nothing but system calls.
[[noreturn]] void become(const char* program, char* const* arguments, char* const* environment,
                         pid_t parent) {
  // SIGKILL: the service has gone without a word, and its programs' connections with it.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(launch::kCannotExecute);
  // Ctrl-C is for the service, which ends its companions in order.
  setpgid(0, 0);
  for (int signal = 1; signal < NSIG; ++signal) std::signal(signal, SIG_DFL);
  // Blocked until the program takes it: one that comes before that would end it.
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGHUP);
  sigprocmask(SIG_SETMASK, &blocked, nullptr);
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing != STDIN_FILENO) dup2(nothing, STDIN_FILENO);
  close_range(STDERR_FILENO + 1, ~0U, 0);
  execve(program, arguments, environment);
  _exit(launch::kCannotExecute);
}

void say(std::string_view line, std::span<const engine::LogField> fields = {}) {
  engine::write_log(engine::LogLevel::kWarning, "uroce serve", line, fields);
}

}  // namespace

Companions::~Companions() {
  for (const Child& child : children_) {
    if (child.process == 0) continue;
    kill(child.process, SIGKILL);
    waitpid(child.process, nullptr, 0);
  }
}

void Companions::apply(std::vector<Program> wanted) {
  for (Child& child : children_) {
    const auto same = std::ranges::find(wanted, child.program.name, &Program::name);
    const bool was_leaving = std::exchange(child.leaving, same == wanted.end());
    if (child.leaving) {
      ask_to_end(child);
      continue;
    }
    if (was_leaving || child.program != *same) {
      child.replaced = child.process != 0;
      ask_to_end(child);
    } else if (child.process != 0) {
      kill(child.process, SIGHUP);
    }
    // What was wrong with it may be mended.
    child.start_at = {};
    child.pause = kPauseMin;
    child.program = std::move(*same);
    wanted.erase(same);
  }
  for (Program& one : wanted) children_.push_back({.program = std::move(one)});
}

bool Companions::look(bool stopping) {
  const Clock::time_point now = Clock::now();
  for (Child& child : children_) {
    if (stopping && !child.leaving) {
      child.leaving = true;
      ask_to_end(child);
    }
    const bool ending = child.leaving || child.replaced;
    if (child.process != 0 && reap(child)) child.replaced = false;
    if (child.process != 0 && ending && now >= child.kill_at) kill(child.process, SIGKILL);
    if (child.process == 0 && !child.leaving && now >= child.start_at) start(child);
  }
  std::erase_if(children_, [](const Child& child) { return child.leaving && child.process == 0; });
  return children_.empty();
}

void Companions::ask_to_end(Child& child) {
  child.kill_at = Clock::now() + kGrace;
  if (child.process != 0) kill(child.process, SIGTERM);
}

void Companions::start(Child& child) {
  const std::string program = launch::program_file("uroce").string();
  std::vector<std::string> arguments{"uroce"};
  arguments.insert(arguments.end(), child.program.arguments.begin(), child.program.arguments.end());
  std::vector<std::string> environment = environment_for(socket_);
  const std::vector<char*> argument_pointers = pointers_to(arguments);
  const std::vector<char*> environment_pointers = pointers_to(environment);
  child.started = Clock::now();
  child.start_at = child.started + child.pause;
  if (access(program.c_str(), X_OK) != 0) {
    say(fmt::format("{}: {}: {}", child.program.name, program, std::strerror(errno)));
    child.pause = std::min(2 * child.pause, kPauseMax);
    return;
  }
  // A signal of the service's must not be handled in the child.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t parent = getpid();
  const pid_t process = fork();
  if (process == 0) become(program.c_str(), argument_pointers.data(), environment_pointers.data(), parent);
  const int code = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (process < 0) return say(fmt::format("{}: fork: {}", child.program.name, std::strerror(code)));
  child.process = process;
}

bool Companions::reap(Child& child) {
  int status = 0;
  if (waitpid(child.process, &status, WNOHANG) != child.process) return false;
  const bool expected = child.leaving || child.replaced;
  const Clock::time_point now = Clock::now();
  if (now - child.started >= kStable) child.pause = kPauseMin;
  if (!expected) {
    child.start_at = now + child.pause;
    tell_end(child, status);
    child.pause = std::min(2 * child.pause, kPauseMax);
  }
  child.process = 0;
  return true;
}

void Companions::tell_end(const Child& child, int status) const {
  const std::string how = WIFSIGNALED(status) ? fmt::format("was ended by signal {}", WTERMSIG(status))
                                              : fmt::format("ended with status {}", WEXITSTATUS(status));
  const std::array fields{engine::LogField{"program", child.program.name},
                          engine::LogField{"process", static_cast<uint64_t>(child.process)}};
  say(fmt::format("{} (process {}) {}; it is started again in {} s", child.program.name, child.process, how,
                  child.pause.count()),
      fields);
}

}  // namespace uroce::serve
