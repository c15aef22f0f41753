#include "qp/local_memory.h"

#include <algorithm>
#include <cassert>

#include "copy/guarded_copy.h"
#include "copy/kernels.h"

namespace uroce::qp {

bool ResolvedRange::gather(std::byte* to) const {
  if (in_one_piece()) [[likely]] {
    const mem::Piece piece = bindings_[0].piece(0);
    return copy::guarded_copy_from(copy::copy_ordinary, to, piece.data, piece.length);
  }
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

bool ResolvedRange::gather(std::byte* to, copy::SummingCopy copy, void* sum) const {
  assert(in_one_piece());
  const mem::Piece piece = bindings_[0].piece(0);
  return copy::guarded_copy_from(copy, to, piece.data, piece.length, sum);
}

bool ResolvedRange::place(copy::Placer& placer, std::span<const std::byte> payload,
                          const copy::MessageMark& mark, bool ends) const {
  const std::byte* from = payload.data();
  size_t left = payload.size();
  // In one piece, as most is.
  if (count_ == 1 && bindings_[0].piece(0).length == left) [[likely]] {
    std::byte* const to = bindings_[0].piece(0).data;
    return ends ? placer.place_last(to, from, left, bindings_[0].nature(), mark)
                : placer.place(to, from, left, bindings_[0].nature(), &mark);
  }
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

bool SegmentCursor::resolve_list(std::span<const queue::Segment> segments, uint64_t offset, uint64_t length,
                                 const LocalKeys& keys, ResolvedRange& range) {
  range.clear();
  if (length == 0) return true;
  seek(segments, offset);
  segments = segments.subspan(index_);
  for (uint64_t skip = offset - base_; length > 0; segments = segments.subspan(1), skip = 0) {
    assert(!segments.empty());
    const queue::Segment& segment = segments.front();
    const uint64_t take = std::min<uint64_t>(length, segment.length - skip);
    if (take == 0) continue;
    if (!range.add(keys.regions.resolve(segment.lkey, keys.user, segment.address + skip, take, keys.needed)))
      return false;
    length -= take;
  }
  return true;
}

}  // namespace uroce::qp
