#include "mem/process/locked_memory.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "base/process/per_process.h"
#include "base/values/contract.h"

namespace uroce::mem {
namespace {

uint64_t whole_pages(const std::byte* address, uint64_t length) {
  if (length == 0) return 0;
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t first = reinterpret_cast<uint64_t>(address) / page;
  const uint64_t last = (reinterpret_cast<uint64_t>(address) + (length - 1)) / page;
  return (last - first + 1) * page;
}

bool may_lock_any_amount() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> data{};
  if (::syscall(SYS_capget, &header, data.data()) != 0) return false;
  return (data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK)) != 0;
}

}  // namespace

LockedMemory& LockedMemory::of_process() {
  static PerProcess<LockedMemory> account;
  return account.get();
}

Status LockedMemory::charge(const std::byte* address, uint64_t length, Limit honoured) {
  const uint64_t wanted = whole_pages(address, length);
  const std::lock_guard lock(mutex_);
  rlimit limit{};
  const bool limited = honoured == Limit::kHonoured && ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
                       limit.rlim_cur != RLIM_INFINITY;
  if (limited && (wanted > limit.rlim_cur || bytes_ > limit.rlim_cur - wanted) && !may_lock_any_amount()) {
    return Error{ENOMEM, "registering " + std::to_string(wanted) + " bytes beside " + std::to_string(bytes_) +
                             " exceeds RLIMIT_MEMLOCK, " + std::to_string(limit.rlim_cur) +
                             " (ulimit -l; memory.honour_memlock)"};
  }
  bytes_ += wanted;
  return {};
}

void LockedMemory::release(const std::byte* address, uint64_t length) {
  const uint64_t given = whole_pages(address, length);
  const std::lock_guard lock(mutex_);
  UROCE_ASSERT(bytes_ >= given);
  bytes_ -= given;
}

uint64_t LockedMemory::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace uroce::mem
