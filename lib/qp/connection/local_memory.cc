#include "qp/connection/local_memory.h"

#include <algorithm>

#include "base/values/contract.h"

namespace uroce::qp {

bool ResolvedRange::become_in_order(const LocalKeys& keys, MemoryKey key, uint64_t address, uint64_t length) {
  clear();
  return add(keys.regions.resolve(key, keys.user, address, length, keys.needed));
}

bool ResolvedRange::gather_pieces(std::byte* to) const {
  for (size_t i = 0; i < count_; ++i) {
    const mem::Binding& binding = bindings_[i];
    for (uint64_t offset = 0; offset < binding.length();) {
      const mem::Piece piece = binding.piece(offset);
      if (!copy::guarded_read(to, piece.data, piece.length)) return false;
      to += piece.length;
      offset += piece.length;
    }
  }
  return true;
}

bool ResolvedRange::place_pieces(copy::Placer& placer, std::span<const std::byte> payload, bool ends) const {
  const std::byte* from = payload.data();
  size_t left = payload.size();
  for (size_t i = 0; i < count_; ++i) {
    const mem::Binding& binding = bindings_[i];
    for (uint64_t offset = 0; offset < binding.length();) {
      const mem::Piece piece = binding.piece(offset);
      UROCE_ASSERT(piece.length <= left);
      // Only what ends the message has a tail; everything before it is body.
      const bool placed = ends && piece.length == left
                              ? placer.place_last(piece.data, from, piece.length, binding.nature())
                              : placer.place(piece.data, from, piece.length, binding.nature());
      if (!placed) return false;
      from += piece.length;
      left -= piece.length;
      offset += piece.length;
    }
  }
  UROCE_ASSERT(left == 0);
  return true;
}

std::byte* ResolvedRange::word() const {
  if (count_ != 1) return nullptr;
  const mem::Piece piece = bindings_[0].piece(0);
  constexpr size_t kBytes = sizeof(uint64_t);
  const bool whole = piece.length == kBytes && reinterpret_cast<uintptr_t>(piece.data) % kBytes == 0;
  return whole ? piece.data : nullptr;
}

bool ResolvedRange::store(std::span<const std::byte> bytes) const {
  for (size_t i = 0; i < count_; ++i) {
    const mem::Binding& binding = bindings_[i];
    for (uint64_t offset = 0; offset < binding.length();) {
      const mem::Piece piece = binding.piece(offset);
      UROCE_ASSERT(piece.length <= bytes.size());
      if (!copy::guarded_store_ascending(piece.data, bytes.data(), piece.length)) return false;
      bytes = bytes.subspan(piece.length);
      offset += piece.length;
    }
  }
  return true;
}

void SegmentCursor::seek(std::span<const queue::Segment> segments, uint64_t offset) {
  if (offset < base_) restart();
  while (index_ < segments.size() && offset >= uint64_t{base_} + segments[index_].length)
    base_ += segments[index_++].length;
  UROCE_ASSERT(base_ <= offset);
}

bool SegmentCursor::resolve_list(std::span<const queue::Segment> segments, uint64_t offset, uint64_t length,
                                 const LocalKeys& keys, ResolvedRange& range) {
  range.clear();
  if (length == 0) return true;
  seek(segments, offset);
  segments = segments.subspan(index_);
  for (uint64_t skip = offset - base_; length > 0; segments = segments.subspan(1), skip = 0) {
    UROCE_ASSERT(!segments.empty());
    const queue::Segment& segment = segments.front();
    const uint64_t take = std::min<uint64_t>(length, segment.length - skip);
    if (take == 0) continue;
    const mem::BusRange whole{segment.address, segment.length};
    if (!range.add(keys.regions.resolve_in_segment(segment.lkey, keys.user, whole, skip, take, keys.needed)))
      return false;
    length -= take;
  }
  return true;
}

}  // namespace uroce::qp
