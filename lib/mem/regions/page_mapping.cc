#include "mem/regions/page_mapping.h"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <string>

#include "base/tables/memory_calls.h"

namespace uroce::mem {
namespace {

constexpr int kHugepage2Mb = 21 << MAP_HUGE_SHIFT;
constexpr int kNodesMax = 1024;

std::byte* reserve(uint64_t length, int flags) {
  return map_memory(nullptr, length, PROT_READ | PROT_WRITE, flags);
}

}  // namespace

Result<PageMapping> PageMapping::make(const RegionTable& table, uint64_t bytes, const Options& options) {
  if (bytes == 0 || bytes > BusSpace::kLengthMax || options.node < kAnyNode || options.node >= kNodesMax)
    return Error{EINVAL, std::to_string(bytes) + " bytes on node " + std::to_string(options.node)};
  const uint64_t length = (bytes + kHugepageBytes - 1) & ~(kHugepageBytes - 1);
  for (const bool huge : {true, false}) {
    if (huge && !options.hugepages_only && !table.hugepages_wanted()) continue;
    if (!huge && options.hugepages_only) break;
    PageMapping made = huge ? of_hugepages(length) : of_ordinary_pages(length);
    if (made.address() == nullptr) continue;
    if (Status status = made.bind(options.node); !status) return status.error();
    // What a node or a control group does not have shows itself here, not at the first touch.
    if (table.probe(made.address(), length, true)) return made;
  }
  return Error{ENOMEM, "no " + std::to_string(length) + " bytes of memory"};
}

PageMapping PageMapping::of_hugepages(uint64_t length) {
  std::byte* const made = reserve(length, MAP_HUGETLB | kHugepage2Mb);
  return made != nullptr ? PageMapping(made, length, kHugepageBytes) : PageMapping();
}

PageMapping PageMapping::of_ordinary_pages(uint64_t length) {
  std::byte* const first = reserve(length + kHugepageBytes, 0);
  if (first == nullptr) return {};
  const uint64_t before =
      (kHugepageBytes - reinterpret_cast<uintptr_t>(first) % kHugepageBytes) % kHugepageBytes;
  if (before != 0) unmap_memory(first, before);
  unmap_memory(first + before + length, kHugepageBytes - before);
  // Advice: the kernel may make hugepages of it, and need not.
  (void)advise_memory(first + before, length, MADV_HUGEPAGE);
  return {first + before, length, static_cast<uint64_t>(::sysconf(_SC_PAGESIZE))};
}

PageMapping::~PageMapping() {
  // libc's: the program had this memory, and its hooks may know more of it than we do.
  if (address_ != nullptr) ::munmap(address_, length_);
}

Status PageMapping::bind(int node) const {
  if (node == kAnyNode) return {};
  constexpr size_t kBits = sizeof(unsigned long) * CHAR_BIT;
  std::array<unsigned long, kNodesMax / kBits> nodes{};
  nodes[static_cast<size_t>(node) / kBits] = 1ul << static_cast<size_t>(node) % kBits;
  if (::syscall(SYS_mbind, address_, length_, MPOL_BIND, nodes.data(), kNodesMax + 1, 0) == 0) return {};
  // A kernel without memory nodes, or a sandbox that hides them: all memory is node 0's.
  if (node == 0 && (errno == ENOSYS || errno == EPERM)) return {};
  return Error{EINVAL, "no memory node " + std::to_string(node)};
}

int PageMapping::node() const {
  int node = kAnyNode;
  const long result = ::syscall(SYS_get_mempolicy, &node, nullptr, 0, address_, MPOL_F_NODE | MPOL_F_ADDR);
  return result == 0 ? node : kAnyNode;
}

}  // namespace uroce::mem
