#include "engine/platform/eal.h"

#include <fmt/format.h>
#include <getopt.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <optional>

#include "base/process/forks.h"
#include "base/process/per_process.h"
#include "base/tables/memory_calls.h"
#include "drivers/pci/pci_device.h"
#include "drivers/process/open_descriptors.h"
#include "engine/platform/eal_log.h"
#include "engine/platform/log.h"
#include "engine/platform/processors.h"
#include "engine/platform/thread.h"

namespace uroce::engine {

namespace {

struct Process {
  std::mutex mutex;
  std::optional<Status> outcome;
  EalState state;
  drivers::OpenDescriptors pipes;  // those that appeared during EAL's start: its own are among them
};

Process& process() {
  static PerProcess<Process> the;
  return the.get();
}

thread_local bool starting = false;

constexpr uint32_t kNobody = UINT32_MAX;

constexpr size_t kHugepageBytes = size_t{2} << 20;

/// Enough free hugepages for the packet buffers, and we may have them: tried, because counters in /sys say
/// nothing about cgroups and other processes' reservations. Nothing is touched, so nothing can fault.
bool hugepages_free(uint32_t megabytes) {
  const size_t bytes = (size_t{megabytes} << 20) / kHugepageBytes * kHugepageBytes;
  void* memory = map_memory(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_HUGETLB);
  if (memory == nullptr) return false;
  unmap_memory(memory, bytes);
  return true;
}

/// EAL ends the process when its interrupt thread gets no descriptor, so what it takes is looked for before:
/// two pipes, a timer, what the thread polls, and files of memory and locks.
bool descriptors_free() {
  std::array<int, 16> taken;
  size_t count = 0;
  while (count < taken.size() && (taken[count] = eventfd(0, EFD_CLOEXEC)) >= 0) ++count;
  for (const int descriptor : std::span(taken).first(count)) close(descriptor);
  return count == taken.size();
}

std::vector<std::string> environment() {
  std::vector<std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) variables.emplace_back(*entry);
  return variables;
}

/// Drivers that EAL loads set variables for libraries of theirs; programs that are started later must not
/// inherit them.
void remove_variables_since(const std::vector<std::string>& before) {
  for (const std::string& variable : environment()) {
    if (std::ranges::find(before, variable) != before.end()) continue;
    const std::string name = variable.substr(0, variable.find('='));
    const auto is_old = [&](const std::string& old) { return old.starts_with(name + "="); };
    const auto old = std::ranges::find_if(before, is_old);
    if (old == before.end()) {
      unsetenv(name.c_str());
    } else {
      setenv(name.c_str(), old->c_str() + name.size() + 1, 1);
    }
  }
}

/// rte_eal_init with its side effects on the process undone: the caller's getopt state and, when the user
/// added arguments, whatever EAL prints about them past its own log.
int initialise(std::vector<std::string> arguments, bool user_arguments, EalLog& log) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const int opterr_before = std::exchange(opterr, 0);
  const std::vector<std::string> variables = environment();
  std::optional<OutputCapture> capture;
  if (user_arguments) capture.emplace();
  const int result = rte_eal_init(static_cast<int>(arguments.size()), argv.data());
  const int code = rte_errno;
  if (capture && result < 0) capture->discard();
  opterr = opterr_before;
  remove_variables_since(variables);
  // Nothing lies in EAL's runtime folder (no shared configuration), so it need not outlive the start.
  rmdir(rte_eal_get_runtime_dir());
  if (result < 0 && log.last_error().empty()) log.note_error(rte_strerror(code));
  return result < 0 ? -code : 0;
}

/// Without the PCI devices that are not for DPDK: EAL's start would let its drivers at them, and that of
/// virtio resets a NIC of the kernel. Why a device is not usable is said when it is opened.
std::vector<std::string> usable(std::span<const std::string> devargs) {
  std::vector<std::string> chosen;
  std::ranges::copy_if(devargs, std::back_inserter(chosen),
                       [](const std::string& device) { return drivers::may_have_pci_device(device).ok(); });
  return chosen;
}

Status start(const Configuration& configuration, std::span<const std::string> devargs, Process& the) {
  EalState& state = the.state;
  // Lcores are counted by EAL's start. The log and the arguments belong to the one that started EAL.
  if (rte_lcore_count() > 0) {
    state = {.running = true, .attached = true, .hugepages = rte_eal_has_hugepages() != 0};
    return {};
  }
  const drivers::OpenDescriptors before = drivers::open_descriptors();
  const bool selective = drivers::program_has_threads();
  const bool hugepages = configuration.hugepages && hugepages_free(configuration.memory_mb);
  set_log_format(configuration.log_format);
  EalLog& log = EalLog::install(log_level_in_force(configuration.log_level));
  std::vector<std::string> arguments = eal_arguments(configuration, usable(devargs), hugepages);
  int result = 0;
  // On a thread of its own: rte_eal_init pins its caller, and EAL's threads inherit the blocked signals.
  Result<Thread> thread = Thread::start("uroce-eal", {}, [&] {
    starting = true;
    result = initialise(std::move(arguments), !configuration.eal_arguments.empty(), log);
    starting = false;
  });
  if (!thread) return thread.error();
  thread->join();
  drivers::close_new_on_exec(before, selective);
  if (result < 0) return Error{-result, fmt::format("EAL does not start: {}", log.last_error())};
  state = {.running = true, .attached = false, .hugepages = hugepages};
  for (const auto& [number, descriptor] : drivers::open_descriptors()) {
    const bool is_new = !before.contains(number) || before.at(number).target != descriptor.target;
    if (is_new && descriptor.target.starts_with("pipe:")) the.pipes[number] = descriptor;
  }
  return {};
}

bool intact(const Process& the) {
  if (the.pipes.empty()) return true;
  const drivers::OpenDescriptors now = drivers::open_descriptors();
  return std::ranges::any_of(the.pipes, [&](const auto& pipe) {
    const auto same = now.find(pipe.first);
    return same != now.end() && same->second.target == pipe.second.target;
  });
}

}  // namespace

Status start_eal(const Configuration& configuration, std::span<const std::string> devargs) {
  // Of this process or of the one that it was forked from, whose memory of EAL's it has.
  static std::atomic<uint32_t> started_by{kNobody};
  Process& the = process();
  const std::lock_guard guard(the.mutex);
  // Relaxed: of another thread's start the lock tells, and a child has one thread at first.
  const uint32_t by = started_by.load(std::memory_order_relaxed);
  if (by != kNobody && by != fork_count())
    return Error{EIO, "DPDK runs in the process that this one was forked from, and cannot be used here"};
  if (!the.outcome && rte_lcore_count() == 0 && !descriptors_free())
    return Error{EMFILE, "EAL does not start: this process may open too few descriptors (ulimit -n)"};
  started_by.store(fork_count(), std::memory_order_relaxed);  // see above
  if (!the.outcome) the.outcome = start(configuration, devargs, the);
  if (*the.outcome && !intact(the)) {
    return Error{EBADF, "this program has closed DPDK's descriptors: its ports cannot be opened any more"};
  }
  return *the.outcome;
}

EalState eal_state() {
  const std::lock_guard guard(process().mutex);
  return process().state;
}

bool eal_intact() {
  const std::lock_guard guard(process().mutex);
  return intact(process());
}

bool eal_starting_on_this_thread() { return starting; }

std::vector<std::string> eal_arguments(const Configuration& configuration,
                                       std::span<const std::string> devargs, bool hugepages) {
  // Lcore 0 is only the main lcore that EAL insists on; nothing ever runs there.
  std::vector<std::string> arguments = {"uroce", fmt::format("--lcores=0@{}", allowed_processors().front())};
  // A thread and a socket of EAL's, only where they are asked for: --telemetry does not undo it.
  if (std::ranges::find(configuration.eal_arguments, "--telemetry") == configuration.eal_arguments.end())
    arguments.emplace_back("--no-telemetry");
  if (hugepages) {
    arguments.emplace_back("--in-memory");
    // A memif peer maps our memory by file descriptor, and gets only so many of them.
    arguments.emplace_back("--single-file-segments");
  } else {
    // Without hugepages --in-memory is refused: a prefix of our own and no shared configuration come close to
    // it.
    for (const char* argument : {"--no-huge", "--no-shconf", "-m"}) arguments.emplace_back(argument);
    arguments.push_back(fmt::format("{}", configuration.memory_mb));
    arguments.push_back(fmt::format("--file-prefix=uroce-{}", getpid()));
  }
  // Other programs' NICs are none of our business: only those that the configuration names are probed.
  bool pci = false;
  for (const std::string& device : devargs) {
    if (!drivers::pci_address(device)) continue;
    pci = true;
    arguments.emplace_back("-a");
    arguments.push_back(device);
  }
  if (!pci) arguments.emplace_back("--no-pci");
  // Copy engines that use the process's addresses open only when EAL speaks of those, and without hugepages
  // there are no others; a NIC's driver and the IOMMU decide otherwise.
  if (!pci || !hugepages) arguments.emplace_back("--iova-mode=va");
  arguments.insert(arguments.end(), configuration.eal_arguments.begin(), configuration.eal_arguments.end());
  return arguments;
}

Result<uint32_t> reserve_lcore() {
  // The id is registered by a thread that ends without unregistering: from then on it belongs to the thread
  // that wears it.
  int code = 0;
  uint32_t lcore = kNoLcore;
  Result<Thread> thread = Thread::start("uroce-lcore", {}, [&] {
    code = rte_thread_register() == 0 ? 0 : rte_errno;
    lcore = rte_lcore_id();
  });
  if (!thread) return thread.error();
  thread->join();
  if (code != 0) return Error{code == ENOMEM ? ENOSPC : code, "EAL has no lcore id left for a poller"};
  return lcore;
}

void release_lcore(uint32_t lcore) {
  if (lcore == kNoLcore) return;
  Result<Thread> thread = Thread::start("uroce-lcore", {}, [&] {
    RTE_PER_LCORE(_lcore_id) = lcore;
    rte_thread_unregister();
  });
  if (thread) thread->join();
}

}  // namespace uroce::engine
