// net_af_packet joins a fanout group with one queue, too, and names it by 16 bits of process id and interface
// index, so devices of two processes may collide. Each port claims its id by name in the network namespace.
// If this process's id does not suit, the device is probed in a child that shares memory and descriptors,
// because the driver calls getpid(). Cost: a process for the length of a probe; a foreign program with the
// same id is not seen.
#include "drivers/port/ethdev/fanout_group.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "base/tables/memory_calls.h"
#include "drivers/process/signals_blocked.h"

namespace uroce::drivers {
namespace {

// Of 65536 names few are in use; a process id that does not suit is followed by others.
constexpr int kProcessesMax = 16;
constexpr size_t kStackBytes = size_t{1} << 20;

struct Attempt {
  std::string port;
  unsigned interface_index = 0;
  const std::function<int()>& probe;
  int failed = -EBUSY;
  std::optional<ExclusiveName> name = {};
};

/// In whichever process calls it.
int attempt(void* argument) {
  auto& the = *static_cast<Attempt*>(argument);
  const auto id = (static_cast<unsigned>(getpid()) ^ the.interface_index) & 0xFFFF;
  auto name = ExclusiveName::take("fanout group " + std::to_string(id));
  if (!name) return 0;
  the.failed = the.probe();
  if (the.failed == 0) the.name.emplace(std::move(*name));
  return 0;
}

/// Runs a child as vfork(2) does: the calling thread stands still while the child, which has its own process
/// id and everything else in common with us, does what this thread would do. No signal tells of its end, and
/// only a wait that asks for such children sees it.
int attempt_in_child(Attempt& the) {
  const SignalsBlocked held;  // inherited
  std::byte* const stack = map_memory(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_STACK);
  if (stack == nullptr) return -ENOMEM;
  const int child =
      clone(attempt, stack + kStackBytes, CLONE_VM | CLONE_FILES | CLONE_FS | CLONE_VFORK, &the);
  const int code = errno;
  if (child > 0) {
    while (waitpid(child, nullptr, __WALL) < 0 && errno == EINTR) {
    }
  }
  unmap_memory(stack, kStackBytes);
  return child > 0 ? 0 : -code;
}

}  // namespace

Result<ExclusiveName> probe_in_own_fanout_group(const std::string& port, unsigned interface_index,
                                                const std::function<int()>& probe) {
  Attempt the{.port = port, .interface_index = interface_index, .probe = probe};
  attempt(&the);
  for (int i = 0; i < kProcessesMax && !the.name; ++i) {
    if (const int failed = attempt_in_child(the); failed != 0)
      return Error{-failed, port + ": no process to make it in: " + std::strerror(-failed)};
  }
  if (the.name) return *std::move(the.name);
  return Error{-the.failed, std::strerror(-the.failed)};
}

}  // namespace uroce::drivers
