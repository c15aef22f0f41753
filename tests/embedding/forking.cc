// Forks before and after devices were opened.
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdlib>

#include "guest.h"

extern char** environ;

namespace uroce::embedding {
namespace {

/// Runs this program again, as the child of fork() that it is.
[[noreturn]] void become(const char* scenario) {
  // It needs ports of its own.
  setenv("UROCE_CONFIG_TEXT",
         "device = [ { port = \"loopback0\", addresses = [\"192.0.2.1/24\"] },"
         " { port = \"loopback1\", addresses = [\"192.0.2.2/24\"] } ]",
         1);
  execl("/proc/self/exe", "guest", scenario, nullptr);
  _exit(3);
}

int before_opening() {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);  // looking alone binds nothing to a process
  ibv_free_device_list(list);
  const pid_t child = fork();
  if (child == 0) {
    Connection connection;
    connection.exchange();
    connection.close();
    std::exit(0);
  }
  REQUIRE(status_of(child) == 0);
  Connection connection;
  connection.exchange();
  return 0;
}

int with_ibv_fork_init() {
  REQUIRE(ibv_fork_init() == 0);
  Connection connection;
  const pid_t child = fork();
  if (child == 0) _exit(0);
  REQUIRE(status_of(child) == 0);
  connection.exchange();
  REQUIRE(ibv_fork_init() == 0);
  return 0;
}

int a_child_that_uses_nothing() {
  Connection connection;
  connection.exchange();
  connection.leave_work_behind();
  for (int i = 0; i < 5; ++i) {
    const pid_t quick = fork();
    if (quick == 0) _exit(5);
    REQUIRE(status_of(quick) == 5);
    const pid_t orderly = fork();
    if (orderly == 0) std::exit(6);
    REQUIRE(status_of(orderly) == 6);
  }
  ibv_wc completion{};
  for (int left = 16; left > 0;) left -= ibv_poll_cq(connection.cq(0), 1, &completion);
  connection.exchange();
  connection.close();
  return 0;
}

int a_child_that_becomes_another_program() {
  Connection connection;
  connection.exchange();
  const pid_t child = fork();
  if (child == 0) become("leaving-after-closing");
  connection.leave_work_behind();
  // The child's ports, of whatever kind, are its own or are refused; see the callers of this scenario.
  return status_of(child) == 42 ? 0 : 1;
}

int a_spawned_program() {
  Connection connection;
  connection.exchange();
  pid_t child = 0;
  const char* const arguments[] = {"true", nullptr};
  REQUIRE(posix_spawnp(&child, "true", nullptr, nullptr, const_cast<char**>(arguments), environ) == 0);
  REQUIRE(status_of(child) == 0);
  REQUIRE(std::system("exit 3") == 3 << 8);
  connection.exchange();
  return 0;
}

int a_child_that_uses_what_it_inherited() {
  Connection connection;
  connection.exchange();
  const pid_t child = fork();
  if (child == 0) {
    ibv_wc completion{};
    REQUIRE(connection.post() == EIO);
    REQUIRE(ibv_poll_cq(connection.cq(0), 1, &completion) < 0);
    std::exit(0);
  }
  REQUIRE(status_of(child) == 0);
  connection.exchange();
  return 0;
}

/// A parent may go, too: the child lives on without its device.
int a_parent_that_ends_first() {
  auto* connection = new Connection;
  connection->exchange();
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t middle = fork();
  if (middle == 0) {
    const pid_t last = fork();
    if (last == 0) {
      char byte = 1;
      REQUIRE(write(ends[1], &byte, 1) == 1);
      std::exit(0);
    }
    _exit(0);
  }
  REQUIRE(status_of(middle) == 0);
  char byte = 0;
  REQUIRE(read(ends[0], &byte, 1) == 1 && byte == 1);
  connection->exchange();
  return 0;
}

}  // namespace

std::vector<Scenario> forking_scenarios() {
  return {{"fork-before-opening", before_opening},
          {"fork-with-ibv-fork-init", with_ibv_fork_init},
          {"fork-a-child-that-uses-nothing", a_child_that_uses_nothing},
          {"fork-a-child-that-becomes-another-program", a_child_that_becomes_another_program},
          {"fork-a-spawned-program", a_spawned_program},
          {"fork-a-child-that-uses-what-it-inherited", a_child_that_uses_what_it_inherited},
          {"fork-a-parent-that-ends-first", a_parent_that_ends_first}};
}

}  // namespace uroce::embedding
