#include "qp/local_memory.h"

#include <algorithm>
#include <cassert>

#include "copy/guarded_copy.h"
#include "copy/kernels.h"

namespace uroce::qp {

bool ResolvedRange::gather(std::byte* to) const {
  for (size_t i = 0; i < count_; ++i) {
    const mem::Binding& binding = bindings_[i];
    for (uint64_t offset = 0; offset < binding.length();) {
      const mem::Piece piece = binding.piece(offset);
      if (!copy::guarded_copy_from(copy::copy_ordinary, to, piece.data, piece.length)) return false;
      to += piece.length;
      offset += piece.length;
    }
  }
  return true;
}

bool ResolvedRange::place(copy::Placer& placer, std::span<const std::byte> payload,
                          const copy::MessageMark& mark, bool ends) const {
  const std::byte* from = payload.data();
  size_t left = payload.size();
  for (size_t i = 0; i < count_; ++i) {
    const mem::Binding& binding = bindings_[i];
    for (uint64_t offset = 0; offset < binding.length();) {
      const mem::Piece piece = binding.piece(offset);
      assert(piece.length <= left);
      // Only what ends the message has a tail; everything before it is body.
      const bool placed = ends && piece.length == left
                              ? placer.place_last(piece.data, from, piece.length, binding.nature(), mark)
                              : placer.place(piece.data, from, piece.length, binding.nature(), &mark);
      if (!placed) return false;
      from += piece.length;
      left -= piece.length;
      offset += piece.length;
    }
  }
  assert(left == 0);
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
      if (!copy::guarded_copy_to(copy::copy_ascending, piece.data, bytes.data(), piece.length)) return false;
      bytes = bytes.subspan(piece.length);
      offset += piece.length;
    }
  }
  return true;
}

void SegmentCursor::seek(std::span<const queue::Segment> segments, uint64_t offset) {
  if (offset < base_) restart();
  while (index_ < segments.size() && offset >= base_ + segments[index_].length)
    base_ += segments[index_++].length;
}

bool SegmentCursor::resolve(std::span<const queue::Segment> segments, uint64_t offset, uint64_t length,
                            const LocalKeys& keys, ResolvedRange& range) {
  range.clear();
  if (length == 0) return true;
  seek(segments, offset);
  uint64_t skip = offset - base_;
  for (uint32_t i = index_; length > 0; ++i, skip = 0) {
    assert(i < segments.size());
    const queue::Segment& segment = segments[i];
    const uint64_t take = std::min<uint64_t>(length, segment.length - skip);
    if (take == 0) continue;
    const mem::Binding binding =
        keys.regions.resolve(segment.lkey, keys.user, segment.address + skip, take, keys.needed);
    if (!binding.ok()) return false;
    range.add(binding);
    length -= take;
  }
  return true;
}

}  // namespace uroce::qp
