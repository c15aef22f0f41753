#include "drivers/block/ram/memory.h"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <fstream>
#include <limits>
#include <string>

#include "base/tables/memory_calls.h"

namespace uroce::drivers {
namespace {

constexpr uint64_t kHugepageBytes = 2u << 20;
constexpr int kHugepage2Mb = 21 << MAP_HUGE_SHIFT;
constexpr int kNodesMax = 1024;

/// What can be had without making others suffer; the greatest number when the kernel does not say.
uint64_t available_bytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::string word;
  while (meminfo >> word) {
    uint64_t kilobytes = 0;
    if (word == "MemAvailable:" && meminfo >> kilobytes) return kilobytes * 1024;
  }
  return std::numeric_limits<uint64_t>::max();
}

}  // namespace

Result<Memory> Memory::make(uint64_t bytes, std::optional<int> node) {
  if (node && (*node < 0 || *node >= kNodesMax))
    return Error{EINVAL, "no memory node " + std::to_string(*node)};
  if (bytes > std::numeric_limits<uint64_t>::max() / 2)
    return Error{ENOMEM, "no " + std::to_string(bytes) + " bytes of memory"};
  Result<Memory> huge = map(bytes, node, true);
  return huge || huge.error().code != ENOMEM ? std::move(huge) : map(bytes, node, false);
}

Result<Memory> Memory::map(uint64_t bytes, std::optional<int> node, bool huge) {
  const Error no_memory = {ENOMEM, "no " + std::to_string(bytes) + " bytes of memory"};
  // The kernel gives away ordinary pages that it does not have, and ends a process when they are touched.
  if (!huge && bytes > available_bytes()) return no_memory;
  const uint64_t length = (bytes + kHugepageBytes - 1) & ~(kHugepageBytes - 1);
  std::byte* const made =
      map_memory(nullptr, length, PROT_READ | PROT_WRITE, huge ? MAP_HUGETLB | kHugepage2Mb : 0);
  if (made == nullptr) return no_memory;
  Memory memory({made, length}, bytes, huge);
  if (!huge) (void)advise_memory(made, length, MADV_HUGEPAGE);  // advice: the kernel may, and need not
  if (node) {
    if (Status status = memory.bind(*node); !status) return status.error();
  }
  if (Status status = memory.populate(); !status) return no_memory;
  return memory;
}

Memory::~Memory() {
  if (!mapped_.empty()) unmap_memory(mapped_.data(), mapped_.size());
}

Status Memory::bind(int node) const {
  constexpr size_t kBits = sizeof(unsigned long) * CHAR_BIT;
  std::array<unsigned long, kNodesMax / kBits> nodes{};
  nodes[static_cast<size_t>(node) / kBits] = 1ul << static_cast<size_t>(node) % kBits;
  if (::syscall(SYS_mbind, mapped_.data(), mapped_.size(), MPOL_BIND, nodes.data(), kNodesMax + 1, 0) == 0)
    return {};
  // A kernel without memory nodes, or a sandbox that hides them: all memory is node 0's.
  if (node == 0 && (errno == ENOSYS || errno == EPERM)) return {};
  return Error{EINVAL, "no memory node " + std::to_string(node)};
}

/// What a node or a control group does not have shows itself here, not as a signal at the first touch.
Status Memory::populate() const {
  if (advise_memory(mapped_.data(), mapped_.size(), MADV_POPULATE_WRITE)) return {};
  if (errno == EINVAL) return {};  // a kernel before 5.14 does not know the advice
  return Error{ENOMEM, "no memory"};
}

}  // namespace uroce::drivers
