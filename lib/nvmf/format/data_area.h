#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace uroce::nvmf {

/// Calls `visit(bytes, position)` for the pieces of `area` that make up [from, from + count).
template <typename Visit>
void for_pieces(std::span<const iovec> area, uint64_t from, uint64_t count, Visit visit) {
  uint64_t done = 0;
  for (const iovec& piece : area) {
    if (done == count) return;
    if (from >= piece.iov_len) {
      from -= piece.iov_len;
      continue;
    }
    const uint64_t bytes = std::min<uint64_t>(piece.iov_len - from, count - done);
    visit(std::span(static_cast<std::byte*>(piece.iov_base) + from, bytes), done);
    done += bytes;
    from = 0;
  }
}

inline void copy_out(std::span<const iovec> area, void* to, uint64_t count) {
  for_pieces(area, 0, count, [to](std::span<std::byte> piece, uint64_t position) {
    std::memcpy(static_cast<std::byte*>(to) + position, piece.data(), piece.size());
  });
}

inline bool equal(std::span<const iovec> area, uint64_t from, std::span<const std::byte> other) {
  bool same = true;
  for_pieces(area, from, other.size(), [&](std::span<std::byte> piece, uint64_t position) {
    same = same && std::memcmp(piece.data(), other.data() + position, piece.size()) == 0;
  });
  return same;
}

/// Writes that part of a page (a log page, an identify structure) which the host wants to see: `area` shows
/// it from `offset` on. What is not appended is zero.
class PageWriter {
 public:
  explicit PageWriter(std::span<const iovec> area, uint64_t offset = 0) : area_(area), offset_(offset) {
    for (const iovec& piece : area) {
      std::memset(piece.iov_base, 0, piece.iov_len);
      bytes_ += piece.iov_len;
    }
  }

  template <typename T>
  void append(const T& value) {
    append(&value, sizeof(T));
  }
  void append(const void* data, size_t size) {
    const uint64_t begin = std::max(at_, offset_);
    const uint64_t end = std::min(at_ + size, offset_ + bytes_);
    if (begin < end) {
      const auto* const from = static_cast<const std::byte*>(data) + (begin - at_);
      for_pieces(area_, begin - offset_, end - begin, [from](std::span<std::byte> piece, uint64_t position) {
        std::memcpy(piece.data(), from + position, piece.size());
      });
    }
    at_ += size;
  }
  /// The bytes of the page so far.
  [[nodiscard]] uint64_t size() const { return at_; }

 private:
  std::span<const iovec> area_;
  uint64_t offset_;
  uint64_t bytes_ = 0;
  uint64_t at_ = 0;
};

}  // namespace uroce::nvmf
