#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "base/values/identifiers.h"
#include "base/values/result.h"
#include "mem/keys/region_table.h"
#include "mem/regions/buddy_blocks.h"
#include "mem/regions/page_mapping.h"
#include "mem/rights/access.h"

namespace uroce::mem {

/// Memory of one domain that is registered and mapped on the bus from the start. What is small shares chunks
/// of 2 MB with others of the same rights and node, and with them a region and its keys; what is larger than
/// BuddyBlocks::kBlockMax, or is to be alone, has a region of its own.
///
/// Control path, thread-safe. The object is destroyed after end(), or when the table is not used any more.
class HugepageArena {
 public:
  struct Request {
    uint64_t bytes = 0;
    Access access;
    int node = kAnyNode;
    bool hugepages_only = false;
    bool alone = false;  // in a region of its own, of exactly so many bytes
  };
  struct Block {
    std::byte* address = nullptr;  // a multiple of 64, and from 4096 bytes on of the page size at least
    RegionKeys keys;
    uint64_t bus_address = 0;
    uint64_t page_bytes = 0;  // 2 MB, or what the fallback has
    int node = kAnyNode;      // where it lies, if the kernel says
  };

  HugepageArena(RegionTable& table, DomainId domain) : table_(table), domain_(domain) {}

  /// Memory may come back that was freed before, with what was in it. What is held and not used is given back
  /// before it fails with ENOMEM. Errors: those of PageMapping::make() and RegionTable::register_user().
  Result<Block> allocate(const Request& request);
  /// No byte of it is touched by the stack afterwards, if its keys were its own; memory in a shared chunk
  /// keeps its keys, which are the neighbours' too. EINVAL: no such block. EBUSY: it has its own region, and
  /// windows are over it, or another region covers its bus address; to be freed again later.
  Status free(std::byte* address);

  /// EBUSY: something is allocated, or another region covers a bus address.
  Status end();

  /// Held from the system, in use or not.
  [[nodiscard]] uint64_t bytes_held() const;

 private:
  /// What is registered as a whole: with blocks, or without for memory that is alone.
  struct Chunk {
    Request made_for;
    PageMapping mapping;
    RegionKeys keys;
    BusRange bus;
    int node = kAnyNode;
    std::unique_ptr<BuddyBlocks> blocks;

    [[nodiscard]] bool suits(const Request& request) const;
    [[nodiscard]] Block at(uint64_t offset) const;
  };
  using Chunks = std::map<std::byte*, Chunk>;  // by address

  Result<Chunk> make_chunk(const Request& request, uint64_t bytes);
  Result<Block> allocate_alone(const Request& request);
  Result<Block> allocate_shared(const Request& request);
  // Under the lock. True: there is room now that was not there before.
  bool drop_unused();
  Status give_back(Chunk& chunk);
  Status take_out(Chunks::iterator chunk);

  RegionTable& table_;
  const DomainId domain_;
  mutable std::mutex mutex_;
  Chunks chunks_;
  std::byte* recent_ = nullptr;  // where the last block was found: the next one probably, too
};

}  // namespace uroce::mem
