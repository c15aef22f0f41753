#include "apps/serve/process_orders.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include "apps/serve/question.h"
#include "base/values/printable.h"
#include "host/control.h"
#include "host/process_memory.h"

namespace uroce::serve {
namespace {

constexpr int64_t kPatienceNs = 5'000'000'000;

}  // namespace

Result<std::optional<ProcessOrders>> ProcessOrders::find(uint32_t pid) {
  const auto process = static_cast<int>(pid);
  constexpr std::string_view kName = host::kOrdersName;
  const auto places = host::memories_of(process, {&kName, 1});
  if (places.empty()) return std::optional<ProcessOrders>();
  auto opened = host::open_memory(process, places.back().descriptor, kName, O_RDWR);
  if (!opened) return std::optional<ProcessOrders>();
  Descriptor ends(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
  auto mapping = host::map_open_memory(opened->descriptor.get(), sizeof(host::OrdersMemory));
  if (!mapping || !ends.ok())
    return Error{EPROTO, fmt::format("process {}: its orders {}", pid,
                                     mapping ? "cannot be followed" : mapping.error().message)};
  ProcessOrders orders(pid, std::move(opened->descriptor), std::move(*mapping), std::move(ends));
  if (!orders.is_open()) return std::optional<ProcessOrders>();
  const host::OrdersMemory& memory = orders.memory();
  if (memory.head.magic != host::kOrdersMagic || memory.head.version != host::kOrdersVersion ||
      memory.head.bytes != sizeof memory)
    return orders.failed(EPROTO, "has another version of uroce");
  if (!host::belongs_to(memory.head, process)) return std::optional<ProcessOrders>();
  return std::optional<ProcessOrders>(std::move(orders));
}

Error ProcessOrders::failed(int code, std::string_view what) const {
  return {code, fmt::format("process {}: {}", pid_, what)};
}

bool ProcessOrders::is_open() const { return memory().question.is_open(); }

std::string ProcessOrders::program() const { return printable(memory().head.program); }

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

Status ProcessOrders::ask_for_it() const {
  switch (ask(memory().question, static_cast<int>(pid_), kPatienceNs)) {
    case Outcome::kAnswered:
      return {};
    case Outcome::kClosed:
      return failed(ESRCH, "has closed its devices");
    case Outcome::kEnded:
      return failed(ESRCH, "has ended");
    case Outcome::kLate:
      break;
  }
  return failed(ETIMEDOUT, "does not answer");
}

Result<ProcessOrders::Answer> ProcessOrders::order(host::OrderKind kind, uint32_t number,
                                                   std::string_view text) const {
  host::OrdersMemory& shared = memory();
  if (!lock_to_ask(shared.question, kPatienceNs, [&] { return lock(host::kOrderLock, true); }))
    return failed(EBUSY, "another tool orders something of it, and does not end");
  shared.kind = kind;
  shared.number = number;
  host::set_text(shared.text, text);
  const Status asked = ask_for_it();
  Result<Answer> answer = asked ? read_answer() : Result<Answer>(asked.error());
  lock(host::kOrderLock, false);
  return answer;
}

Result<ProcessOrders::Answer> ProcessOrders::read_answer() const {
  const host::OrdersMemory& shared = memory();
  if (shared.error != 0) return failed(shared.error, printable(shared.complaint));
  Answer answer{.number = shared.number_answered, .faults = {}, .captures = {}};
  const auto faults = std::min<uint32_t>(shared.faults_shown, host::kOrderedFaultsMax);
  answer.faults.assign(shared.faults.begin(), shared.faults.begin() + faults);
  const auto captures = std::min<uint32_t>(shared.captures_shown, host::kCapturesMax);
  for (const host::CaptureShown& shown : std::span(shared.captures).first(captures)) {
    // Any number may stand there.
    auto memory = host::open_memory(static_cast<int>(pid_), shown.descriptor, host::kCaptureName, O_RDONLY);
    if (!memory) return failed(memory.error().code, "the memory of a capture: " + memory.error().message);
    answer.captures.push_back({printable(shown.device), std::move(memory->descriptor)});
  }
  return answer;
}

}  // namespace uroce::serve
