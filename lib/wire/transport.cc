// Decision: the BTH is read as one vector and written field by field. Received bytes are old, while fields
// that were just set would make a vector load wait. Static assertions fix the order of Bth's fields.
#include "wire/transport.h"

#include <bit>
#include <cstring>

#include "base/values/contract.h"
#include "wire/big_endian.h"

// Extension headers, reading beside writing, so that each offset is seen twice on one screen.
namespace uroce::wire {
namespace {

void read_atomic(const std::byte* from, AtomicEth& atomic) {
  atomic.address = load_be64(from);
  atomic.rkey = {load_be32(from + 8)};
  atomic.swap_or_add = load_be64(from + 12);
  atomic.compare = load_be64(from + 20);
}

void write_atomic(std::byte* to, const AtomicEth& atomic) {
  store_be64(to, atomic.address);
  store_be32(to + 8, atomic.rkey.value);
  store_be64(to + 12, atomic.swap_or_add);
  store_be64(to + 20, atomic.compare);
}

// A reserved selectivity reads as the wider one: flushing more than was asked is harmless.
void read_feth(const std::byte* from, Feth& feth) {
  const uint32_t word = load_be32(from);
  feth.global_visibility = (word & 1) != 0;
  feth.persistence = (word & 2) != 0;
  feth.whole_region = (word >> 4 & 3) != 0;
}

void write_feth(std::byte* to, const Feth& feth) {
  store_be32(to, uint32_t{feth.whole_region} << 4 | uint32_t{feth.persistence} << 1 |
                     uint32_t{feth.global_visibility});
}

void read_extension(Header header, const std::byte* from, Headers& headers) {
  switch (header) {
    case Header::kXrcEth:
      headers.xrc_srq = load_be24(from);
      return;
    case Header::kDeth:
      headers.deth = {load_be32(from), {load_be24(from + 4)}};
      return;
    case Header::kFeth:
      return read_feth(from, headers.feth);
    case Header::kReth:
      return read_reth(from, headers.reth);
    case Header::kAtomicEth:
      return read_atomic(from, headers.atomic);
    case Header::kAeth:
      return read_aeth(from, headers.aeth);
    case Header::kAtomicAckEth:
      headers.atomic_original = load_be64(from);
      return;
    case Header::kImmediate:
      std::memcpy(&headers.immediate, from, sizeof headers.immediate);
      return;
    case Header::kInvalidate:
      headers.invalidate = {load_be32(from)};
      return;
    case Header::kCnpPadding:
      return;
  }
}

void write_extension(Header header, std::byte* to, const Headers& headers) {
  switch (header) {
    case Header::kXrcEth:
      return store_be32(to, headers.xrc_srq & 0xFFFFFF);
    case Header::kDeth:
      store_be32(to, headers.deth.qkey);
      return store_be32(to + 4, headers.deth.source.value & QpNumber::kMask);
    case Header::kFeth:
      return write_feth(to, headers.feth);
    case Header::kReth:
      return write_reth(to, headers.reth);
    case Header::kAtomicEth:
      return write_atomic(to, headers.atomic);
    case Header::kAeth:
      return write_aeth(to, headers.aeth);
    case Header::kAtomicAckEth:
      return store_be64(to, headers.atomic_original);
    case Header::kImmediate:
      std::memcpy(to, &headers.immediate, sizeof headers.immediate);
      return;
    case Header::kInvalidate:
      return store_be32(to, headers.invalidate.value);
    case Header::kCnpPadding:
      std::memset(to, 0, header_bytes(Header::kCnpPadding));
      return;
  }
}

/// Calls `visit(header, offset from the BTH)` for each header of the set, in wire order. There is one at
/// least.
template <typename Visit>
void for_each_extension(HeaderSet set, Visit visit) {
  uint32_t left = set.bits();
  UROCE_ASSERT(left != 0);
  for (uint32_t offset = kBthBytes;;) {
    const auto header = static_cast<Header>(std::countr_zero(left));
    visit(header, offset);
    left &= left - 1;
    if (left == 0) return;
    offset += header_bytes(header);
  }
}

}  // namespace

ParseOutcome wrong_length(size_t bytes, const OpcodeRow& row, size_t pad) {
  if (bytes < size_t{row.header_bytes} + kIcrcBytes) return dropped(Counter::kDropTruncated);
  const size_t padded = bytes - row.header_bytes - kIcrcBytes;
  return dropped(padded % 4 != 0 || pad > padded ? Counter::kDropPad : Counter::kDropPayloadLength);
}

void write_rare_flags(std::byte* to, const Bth& bth) {
  to[1] |= std::byte{bth.migration} << 6;
  to[4] |= std::byte{bth.fecn} << 7 | std::byte{bth.becn} << 6;
}

void read_any_extensions(HeaderSet set, const std::byte* bth, Headers& headers) {
  for_each_extension(set,
                     [&](Header header, uint32_t offset) { read_extension(header, bth + offset, headers); });
}

void write_any_extensions(HeaderSet set, std::byte* bth, const Headers& headers) {
  for_each_extension(set,
                     [&](Header header, uint32_t offset) { write_extension(header, bth + offset, headers); });
}

}  // namespace uroce::wire
