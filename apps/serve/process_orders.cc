#include "apps/serve/process_orders.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <span>

#include "host/control.h"
#include "host/process_memory.h"
#include "host/process_start.h"

namespace uroce::serve {
namespace {

constexpr int64_t kPatienceNs = 5'000'000'000;
constexpr int64_t kPauseNs = 2'000'000;

int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void futex(std::atomic<uint32_t>& word, int operation, uint32_t value) {
  const timespec pause{.tv_sec = 0, .tv_nsec = kPauseNs};
  syscall(SYS_futex, &word, operation, value, operation == FUTEX_WAIT ? &pause : nullptr, nullptr, 0);
}

/// A text that another process wrote, which may lack its end.
template <size_t N>
std::string bounded(const std::array<char, N>& text) {
  return {text.data(), strnlen(text.data(), N)};
}

}  // namespace

Result<std::optional<ProcessOrders>> ProcessOrders::find(uint32_t pid) {
  const auto process = static_cast<int>(pid);
  std::optional<int> place;
  host::for_each_memory(process, [&](std::string_view name, int descriptor) {
    if (name == host::kOrdersName) place = descriptor;
  });
  if (!place) return std::optional<ProcessOrders>();
  Descriptor descriptor(open(host::path_of_descriptor(process, *place).c_str(), O_RDWR | O_CLOEXEC));
  if (!descriptor.ok()) return std::optional<ProcessOrders>();
  Descriptor ends(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
  auto mapping = host::map_open_memory(descriptor.get(), sizeof(host::OrdersMemory));
  if (!mapping || !ends.ok())
    return Error{EPROTO, fmt::format("process {}: its orders {}", pid,
                                     mapping ? "cannot be followed" : mapping.error().message)};
  ProcessOrders orders(pid, std::move(descriptor), std::move(*mapping), std::move(ends));
  const host::OrdersMemory& memory = orders.memory();
  // A child that was forked has the descriptor, too.
  if (host::start_of_process(process) != memory.started_ticks || !orders.is_open())
    return std::optional<ProcessOrders>();
  if (memory.magic != host::kOrdersMagic || memory.bytes != sizeof memory)
    return orders.failed(EPROTO, "has another version of uroce");
  return std::optional<ProcessOrders>(std::move(orders));
}

Error ProcessOrders::failed(int code, std::string_view what) const {
  return {code, fmt::format("process {}: {}", pid_, what)};
}

bool ProcessOrders::is_open() const {
  return memory().open.load(std::memory_order_acquire) != 0;  // pairs with ~OwnOrders()
}

std::string ProcessOrders::program() const {
  std::string name = bounded(memory().program);
  std::ranges::replace_if(
      name, [](char c) { return c < ' ' || c > '~'; }, '?');
  return name;
}

bool ProcessOrders::lock(int64_t byte, bool locked) const {
  struct flock range {};
  range.l_type = locked ? F_WRLCK : F_UNLCK;
  range.l_whence = SEEK_SET;
  range.l_start = byte;
  range.l_len = 1;
  return fcntl(descriptor_.get(), F_OFD_SETLK, &range) == 0;
}

Status ProcessOrders::begin_capture() const {
  if (lock(host::kCaptureLock, true)) return {};
  return failed(EBUSY, "another capture of it is under way");
}

Status ProcessOrders::wait_for_answer(uint32_t asked) const {
  host::OrdersMemory& shared = memory();
  for (const int64_t until = now_ns() + kPatienceNs; now_ns() < until;) {
    const uint32_t answered = shared.answered.load(std::memory_order_acquire);  // pairs with the answer
    if (answered == asked) return {};
    if (!is_open()) return failed(ESRCH, "has closed its devices");
    futex(shared.answered, FUTEX_WAIT, answered);
    if (kill(static_cast<pid_t>(pid_), 0) != 0 && errno == ESRCH) return failed(ESRCH, "has ended");
  }
  return failed(ETIMEDOUT, "does not answer");
}

Result<ProcessOrders::Answer> ProcessOrders::order(host::OrderKind kind, uint32_t number,
                                                   std::string_view text) const {
  host::OrdersMemory& shared = memory();
  bool locked = false;
  for (const int64_t until = now_ns() + kPatienceNs; !locked && now_ns() < until;) {
    locked = lock(host::kOrderLock, true);
    if (!locked) futex(shared.answered, FUTEX_WAIT, shared.answered.load(std::memory_order_relaxed));
  }
  if (!locked) return failed(EBUSY, "another tool orders something of it, and does not end");
  shared.kind = kind;
  shared.number = number;
  host::set_text(shared.text, text);
  // Release: with the order. seq_cst with the bell: the process looks at it after it has set the bell.
  const uint32_t asked = shared.asked.fetch_add(1, std::memory_order_seq_cst) + 1;
  if (shared.bell.exchange(0, std::memory_order_seq_cst) != 0) futex(shared.bell, FUTEX_WAKE, INT_MAX);
  const Status waited = wait_for_answer(asked);
  Result<Answer> answer = waited ? read_answer() : Result<Answer>(waited.error());
  lock(host::kOrderLock, false);
  return answer;
}

Result<ProcessOrders::Answer> ProcessOrders::read_answer() const {
  const host::OrdersMemory& shared = memory();
  if (shared.error != 0) return failed(shared.error, bounded(shared.complaint));
  Answer answer{.number = shared.number_answered, .faults = {}, .captures = {}};
  const auto faults = std::min<uint32_t>(shared.faults_shown, host::kOrderedFaultsMax);
  answer.faults.assign(shared.faults.begin(), shared.faults.begin() + faults);
  const auto captures = std::min<uint32_t>(shared.captures_shown, host::kCapturesMax);
  for (const host::CaptureShown& shown : std::span(shared.captures).first(captures)) {
    const std::string path = host::path_of_descriptor(static_cast<int>(pid_), shown.descriptor);
    Descriptor memory(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!memory.ok()) return failed(errno, std::strerror(errno));
    answer.captures.push_back({bounded(shown.device), std::move(memory)});
  }
  return answer;
}

}  // namespace uroce::serve
