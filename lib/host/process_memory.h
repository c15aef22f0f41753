#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/process/descriptor.h"
#include "base/values/result.h"

// How tools find the memory of other processes below /proc. The processes are of any user, and their
// descriptors may be of anything: a file that blocks its opener, a thousand descriptors of one memory.
namespace uroce::host {

/// Calls `use` with each entry of the folder whose name is a number, as below /proc. None of what may not be
/// read.
void for_each_number(const std::string& folder, const std::function<void(int)>& use);

/// A memfd that a process has open under a name that tools look for.
struct FoundMemory {
  int pid = 0;
  int descriptor = 0;
  uint64_t inode = 0;
  std::string_view name;  // one of those that were looked for
};

/// So many memories of a process are found, and so many of its descriptors looked at: more have none but
/// those that want a tool to be busy.
inline constexpr size_t kMemoriesOfProcessMax = 16;
inline constexpr size_t kDescriptorsLookedAtMax = 16'384;

/// The memories of a process that have one of these names, as far as this process may see them: each once,
/// whatever number of descriptors it has of it.
std::vector<FoundMemory> memories_of(int pid, std::span<const std::string_view> names);

/// A process's memory by a descriptor of it. What is opened is looked at before, so the process may exchange
/// it meanwhile: ENOENT, it is no memfd of that name. EAGAIN: it is kept from being opened (a lease). EACCES.
struct OpenedMemory {
  Descriptor descriptor;
  uint64_t inode = 0;
  uint32_t owner = 0;  // the user that made it
};
Result<OpenedMemory> open_memory(int pid, int descriptor, std::string_view name, int access);

/// All processes, so that none of a user with many comes before the first ones of the other users.
std::vector<int> processes_in_turns();

}  // namespace uroce::host
