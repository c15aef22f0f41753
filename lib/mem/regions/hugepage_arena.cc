#include "mem/regions/hugepage_arena.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "base/values/contract.h"

namespace uroce::mem {

bool HugepageArena::Chunk::suits(const Request& request) const {
  return blocks != nullptr && keys.lkey.value != 0 && made_for.access == request.access &&
         made_for.node == request.node &&
         (mapping.page_bytes() == PageMapping::kHugepageBytes || !request.hugepages_only);
}

HugepageArena::Block HugepageArena::Chunk::at(uint64_t offset) const {
  return {.address = mapping.address() + offset,
          .keys = keys,
          .bus_address = bus.address + offset,
          .page_bytes = mapping.page_bytes(),
          .node = node};
}

Result<HugepageArena::Block> HugepageArena::allocate(const Request& request) {
  if (request.bytes == 0) return Error{EINVAL, "no bytes"};
  // A block of a shared chunk does not begin at 0 for holders of its key.
  if (request.access.any(kZeroBased)) return Error{EINVAL, "memory with keys of addresses, not of offsets"};
  return request.alone || request.bytes > BuddyBlocks::kBlockMax ? allocate_alone(request)
                                                                 : allocate_shared(request);
}

Result<HugepageArena::Block> HugepageArena::allocate_alone(const Request& request) {
  Result<Chunk> chunk = make_chunk(request, request.bytes);
  const std::lock_guard lock(mutex_);
  if (!chunk && chunk.error().code == ENOMEM && drop_unused()) chunk = make_chunk(request, request.bytes);
  if (!chunk) return chunk.error();
  const Block block = chunk->at(0);
  chunks_.emplace(block.address, std::move(*chunk));
  return block;
}

Result<HugepageArena::Block> HugepageArena::allocate_shared(const Request& request) {
  const std::lock_guard lock(mutex_);
  const auto try_chunk = [&](Chunks::iterator at) -> std::optional<Block> {
    if (!at->second.suits(request)) return std::nullopt;
    const auto offset = at->second.blocks->allocate(static_cast<uint32_t>(request.bytes));
    if (!offset) return std::nullopt;
    recent_ = at->first;
    return at->second.at(*offset);
  };
  if (const auto recent = chunks_.find(recent_); recent != chunks_.end()) {
    if (const auto block = try_chunk(recent)) return *block;
  }
  for (auto at = chunks_.begin(); at != chunks_.end(); ++at) {
    if (const auto block = try_chunk(at)) return *block;
  }
  auto blocks = std::make_unique<BuddyBlocks>();
  Result<Chunk> chunk = make_chunk(request, BuddyBlocks::kBytes);
  if (!chunk && chunk.error().code == ENOMEM && drop_unused())
    chunk = make_chunk(request, BuddyBlocks::kBytes);
  if (!chunk) return chunk.error();
  chunk->blocks = std::move(blocks);
  std::byte* const address = chunk->mapping.address();
  const std::optional<Block> first = try_chunk(chunks_.emplace(address, std::move(*chunk)).first);
  UROCE_ASSERT(first);  // a new chunk suits the request that it was made for
  return *first;
}

Result<HugepageArena::Chunk> HugepageArena::make_chunk(const Request& request, uint64_t bytes) {
  UROCE_ASSERT(table_.bus_space() != nullptr);
  Result<PageMapping> mapping =
      PageMapping::make(table_, bytes, {.node = request.node, .hugepages_only = request.hugepages_only});
  if (!mapping) return mapping.error();
  const Result<RegionKeys> keys =
      table_.register_user({.domain = domain_,
                            .address = mapping->address(),
                            .length = bytes,
                            .iova = reinterpret_cast<uint64_t>(mapping->address()),
                            .access = request.access,
                            .ours = true});
  if (!keys) return keys.error();
  const Result<uint64_t> bus = table_.bus_space()->map(mapping->address(), bytes, Direction::kBidirectional);
  if (!bus) {
    // The key is known here only, so it ends. If not, the memory must not go.
    if (!table_.deregister(keys->lkey)) mapping->abandon();
    return bus.error();
  }
  Chunk chunk{
      .made_for = request, .mapping = {}, .keys = *keys, .bus = {*bus, bytes}, .node = mapping->node()};
  chunk.mapping = std::move(*mapping);
  return chunk;
}

Status HugepageArena::free(std::byte* address) {
  const std::lock_guard lock(mutex_);
  auto after = chunks_.upper_bound(address);
  if (after == chunks_.begin()) return Error{EINVAL, "no such memory"};
  const auto found = std::prev(after);
  Chunk& chunk = found->second;
  const auto offset = static_cast<uint64_t>(address - found->first);
  if (chunk.blocks == nullptr) {
    if (offset != 0) return Error{EINVAL, "not the first byte of it"};
    return take_out(found);
  }
  if (offset >= BuddyBlocks::kBytes || !chunk.blocks->free(static_cast<uint32_t>(offset)))
    return Error{EINVAL, "no such memory"};
  if (!chunk.blocks->unused()) return {};
  // One unused chunk is kept for the next allocation. More are not, unless some region covers them.
  const bool another = std::ranges::any_of(chunks_, [&](const auto& other) {
    return &other.second != &chunk && other.second.blocks != nullptr && other.second.blocks->unused();
  });
  if (another) (void)take_out(found);
  return {};
}

bool HugepageArena::drop_unused() {
  bool dropped = false;
  for (auto next = chunks_.begin(); next != chunks_.end();) {
    const auto chunk = next++;
    if (chunk->second.blocks != nullptr && chunk->second.blocks->unused()) dropped |= take_out(chunk).ok();
  }
  return dropped;
}

Status HugepageArena::take_out(Chunks::iterator chunk) {
  if (Status status = give_back(chunk->second); !status) return status;
  chunks_.erase(chunk);
  return {};
}

/// What a refusal leaves half done is gone on with next time.
Status HugepageArena::give_back(Chunk& chunk) {
  if (chunk.keys.lkey.value != 0) {
    if (Status status = table_.deregister(chunk.keys.lkey); !status) return status;
    chunk.keys = {};
  }
  return table_.bus_space()->unmap({&chunk.bus, 1}, Direction::kBidirectional);
}

Status HugepageArena::end() {
  const std::lock_guard lock(mutex_);
  for (const auto& [address, chunk] : chunks_) {
    if (chunk.blocks == nullptr || !chunk.blocks->unused()) return Error{EBUSY, "memory is in use"};
  }
  while (!chunks_.empty()) {
    if (Status status = take_out(chunks_.begin()); !status) return status;
  }
  return {};
}

uint64_t HugepageArena::bytes_held() const {
  const std::lock_guard lock(mutex_);
  uint64_t held = 0;
  for (const auto& [address, chunk] : chunks_) held += chunk.mapping.length();
  return held;
}

}  // namespace uroce::mem
