// A program that finds no service starts one, detached: a program may wait for any child of its own, and the
// service outlives it. Of several programs that start it at once, all but one find that it is being started,
// and wait.
// An attachment that a service broke off by its end is tried once more: it ends after a minute without
// programs, which may be that moment.
#include "drivers/port/host/service_start.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/process/descriptor.h"
#include "drivers/process/signals_blocked.h"
#include "host/control.h"

extern char** environ;

namespace uroce::drivers {
namespace {

constexpr int kStartMs = 10'000;
/// Where the service is, as seen from the library or program that this code is in: in a build, and installed.
constexpr std::array kPlaces = {"/uroce-serve", "/../../apps/uroce-serve", "/../../libexec/uroce/uroce-serve",
                                "/../../../libexec/uroce/uroce-serve", "/../libexec/uroce/uroce-serve"};
/// Without programs.
constexpr const char* kIdleExitSeconds = "60";

std::string service_program() {
  Dl_info self{};
  if (dladdr(reinterpret_cast<const void*>(&start_service), &self) == 0) return {};
  std::string file = self.dli_fname;
  // Of a program that is what it was started as, which may be anything; of a library its path.
  if (file.find('/') == std::string::npos) {
    char path[4096];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    if (length <= 0) return {};
    file.assign(path, static_cast<size_t>(length));
  }
  const std::string folder = file.substr(0, file.rfind('/'));
  for (const char* place : kPlaces)
    if (access((folder + place).c_str(), X_OK) == 0) return folder + place;
  return {};
}

/// What the new process says on its descriptor: an empty line, or a complaint.
Status take_answer(int descriptor) {
  std::string said;
  for (;;) {
    pollfd source{.fd = descriptor, .events = POLLIN, .revents = 0};
    const int ready = poll(&source, 1, kStartMs);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return Error{ETIMEDOUT, "uroce-serve does not come up"};
    char bytes[512];
    const ssize_t length = read(descriptor, bytes, sizeof bytes);
    if (length < 0 && errno == EINTR) continue;
    if (length <= 0) break;
    said.append(bytes, static_cast<size_t>(length));
    if (said.front() == '\n') return {};
  }
  if (said.empty()) return Error{ECONNREFUSED, "uroce-serve ended at once"};
  const bool another = said.find(host::kAnotherService) != std::string::npos;
  return Error{another ? EADDRINUSE : ECONNREFUSED, said.substr(0, said.find('\n'))};
}

}  // namespace

Status start_service(const std::string& socket) {
  const std::string program = service_program();
  if (program.empty()) return Error{ENOENT, "uroce-serve is not there: uroce is not installed completely"};
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Error{errno, std::strerror(errno)};
  Descriptor from(ends[0]);
  Descriptor to(ends[1]);
  constexpr int kReady = 3;
  std::array arguments = {program,
                          std::string("--detach"),
                          std::string("--idle-exit"),
                          std::string(kIdleExitSeconds),
                          std::string("--socket"),
                          socket,
                          std::string("--ready-fd"),
                          std::to_string(kReady)};
  std::array<char*, arguments.size() + 1> pointers{};
  for (size_t i = 0; i < arguments.size(); ++i) pointers[i] = arguments[i].data();
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  // First: of a program without standard streams the pipe has their numbers.
  posix_spawn_file_actions_adddup2(&actions, to.get(), kReady);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDWR, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_RDWR, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_RDWR, 0);
  posix_spawn_file_actions_addclosefrom_np(&actions, kReady + 1);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  pid_t child = -1;
  const int error = posix_spawn(&child, program.c_str(), &actions, &attributes, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return Error{error, program + ": " + std::strerror(error)};
  to = Descriptor();
  // It ends at once, and what goes on is no child of the program, which may wait for any of its own.
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return take_answer(from.get());
}

}  // namespace uroce::drivers
