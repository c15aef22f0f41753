#pragma once

#include <tmmintrin.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "wire/big_endian.h"
#include "wire/layers.h"
#include "wire/packet.h"

// The BTH, reading beside writing, and what is proved when a transport packet is parsed: short, and on the
// way of every packet. The rarer extension headers are in transport.cc.
namespace uroce::wire {

/// For each byte of a Bth: which one of the wire it comes from (none: 0xFF, a zero), which bits of that
/// count, and what it is at most: 1 for a flag.
struct BthFields {
  alignas(16) std::array<uint8_t, 16> source;
  alignas(16) std::array<uint8_t, 16> bits;
  alignas(16) std::array<uint8_t, 16> largest;
};

constexpr BthFields make_bth_fields() {
  BthFields fields{};
  fields.source.fill(0xFF);
  fields.largest.fill(0xFF);
  const auto number = [&](size_t field, size_t wire, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) {
      fields.source[field + i] = static_cast<uint8_t>(wire + bytes - 1 - i);
      fields.bits[field + i] = 0xFF;
    }
  };
  const auto flag = [&](size_t field, uint8_t wire, uint8_t bit) {
    fields.source[field] = wire;
    fields.bits[field] = bit;
    fields.largest[field] = 1;
  };
  number(offsetof(Bth, opcode), 0, 1);
  flag(offsetof(Bth, solicited), 1, 0x80);
  flag(offsetof(Bth, migration), 1, 0x40);
  number(offsetof(Bth, partition_key), 2, 2);
  flag(offsetof(Bth, fecn), 4, 0x80);
  flag(offsetof(Bth, becn), 4, 0x40);
  number(offsetof(Bth, destination), 5, 3);
  flag(offsetof(Bth, ack_request), 8, 0x80);
  number(offsetof(Bth, psn), 9, 3);
  return fields;
}
inline constexpr BthFields kBthFields = make_bth_fields();
static_assert(offsetof(Bth, psn) + sizeof(Psn) == 16 && offsetof(Bth, pad) == 16);
static_assert(sizeof(bool) == 1 && sizeof(Psn) == 4 && sizeof(QpNumber) == 4);

/// All but the pad count. Sixteen bytes are read: an ICRC, at least, follows.
inline void read_bth(const std::byte* from, Bth& bth) {
  static_assert(kBthBytes + kIcrcBytes == sizeof(__m128i));
  const auto vector = [](const void* at) { return _mm_loadu_si128(static_cast<const __m128i*>(at)); };
  const __m128i moved = _mm_shuffle_epi8(vector(from), vector(kBthFields.source.data()));
  const __m128i bits = _mm_and_si128(moved, vector(kBthFields.bits.data()));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&bth), _mm_min_epu8(bits, vector(kBthFields.largest.data())));
}

/// Adds to a BTH that was written what hardly any packet says: migration, FECN, BECN.
void write_rare_flags(std::byte* to, const Bth& bth);

/// Field by field, as they were set just before: a vector would wait for them.
inline void write_bth(std::byte* to, const Bth& bth, uint32_t pad) {
  store_u8(to, bth.opcode.value);
  store_u8(to + 1, static_cast<uint8_t>(uint32_t{bth.solicited} << 7 | pad << 4));
  store_be16(to + 2, bth.partition_key);
  store_be32(to + 4, bth.destination.value & QpNumber::kMask);
  store_be32(to + 8, uint32_t{bth.ack_request} << 31 | bth.psn.value());
  if (bth.migration | bth.fecn | bth.becn) [[unlikely]]
    write_rare_flags(to, bth);
}

/// The part of a BTH that is the packet's own. The rest is the same in all packets to a queue pair, and in
/// their FrameTemplate.
struct PacketBth {
  Opcode opcode;
  bool solicited = false;
  bool ack_request = false;
  Psn psn;
};

/// The first two bytes of a BTH: opcode and flags, as a little-endian number.
inline uint16_t beginning_of_bth(Opcode opcode, bool solicited, uint32_t pad) {
  return static_cast<uint16_t>(opcode.value | (uint32_t{solicited} << 7 | pad << 4) << 8);
}
/// The last four bytes of a BTH.
inline void write_psn_word(std::byte* to, bool ack_request, Psn psn) {
  store_be32(to, uint32_t{ack_request} << 31 | psn.value());
}
inline void read_psn_word(const std::byte* from, Bth& bth) {
  const uint32_t word = load_be32(from);
  bth.ack_request = word >> 31 != 0;
  bth.psn = Psn(word & Psn::kMask);
}

inline void read_reth(const std::byte* from, Reth& reth) {
  reth.address = load_be64(from);
  reth.rkey = {load_be32(from + 8)};
  reth.length = load_be32(from + 12);
}

inline void write_reth(std::byte* to, const Reth& reth) {
  store_be64(to, reth.address);
  store_be32(to + 8, reth.rkey.value);
  store_be32(to + 12, reth.length);
}

// Bit 7 of the syndrome is reserved: written as zero, ignored when read.
inline void read_aeth(const std::byte* from, Aeth& aeth) {
  const uint8_t syndrome = load_u8(from);
  aeth.kind = static_cast<AethKind>(syndrome >> 5 & 3);
  aeth.value = syndrome & 0x1F;
  aeth.msn = load_be24(from);
}

inline void write_aeth(std::byte* to, const Aeth& aeth) {
  const uint32_t syndrome = static_cast<uint32_t>(aeth.kind) << 5 | (aeth.value & 0x1Fu);
  store_be32(to, syndrome << 24 | (aeth.msn & 0xFFFFFF));
}

/// The headers of a set that is not empty, behind the BTH.
void read_any_extensions(HeaderSet set, const std::byte* bth, Headers& headers);
void write_any_extensions(HeaderSet set, std::byte* bth, const Headers& headers);

// Most packets have none, or one of two.
inline void read_extensions(HeaderSet set, const std::byte* bth, Headers& headers) {
  if (set == HeaderSet{}) return;
  if (set == HeaderSet::of(Header::kReth)) return read_reth(bth + kBthBytes, headers.reth);
  if (set == HeaderSet::of(Header::kAeth)) return read_aeth(bth + kBthBytes, headers.aeth);
  read_any_extensions(set, bth, headers);
}
inline void write_extensions(HeaderSet set, std::byte* bth, const Headers& headers) {
  if (set == HeaderSet{}) return;
  if (set == HeaderSet::of(Header::kReth)) return write_reth(bth + kBthBytes, headers.reth);
  if (set == HeaderSet::of(Header::kAeth)) return write_aeth(bth + kBthBytes, headers.aeth);
  write_any_extensions(set, bth, headers);
}

/// What a packet of the row has behind its BTH: extension headers, so much payload, which the row admits, and
/// the ICRC at `icrc`.
inline void read_behind_bth(const OpcodeRow& row, const std::byte* bth, size_t payload_bytes,
                            const std::byte* icrc, Packet& packet) {
  packet.row = &row;
  packet.payload = {bth + row.header_bytes, payload_bytes};
  std::memcpy(&packet.icrc, icrc, kIcrcBytes);
  read_extensions(row.headers, bth, packet.headers);
}

/// What is wrong with a packet of the row whose length does not fit.
ParseOutcome wrong_length(size_t bytes, const OpcodeRow& row, size_t pad);

/// `bytes` are exactly BTH .. ICRC.
inline ParseOutcome parse_transport(std::span<const std::byte> bytes, Packet& packet) {
  if (bytes.size() < kBthBytes + kIcrcBytes) return dropped(Counter::kDropTruncated);
  const std::byte* const bth = bytes.data();
  const uint8_t flags = load_u8(bth + 1);
  if ((flags & 0x0F) != 0) return dropped(Counter::kDropTransportVersion);
  const OpcodeRow& row = opcode_row({load_u8(bth)});
  if (!row.valid) return dropped(Counter::kDropOpcode);

  // Either wraps round when the packet is too short for it: then it is more than any row admits.
  const size_t padded = bytes.size() - row.header_bytes - kIcrcBytes;
  const uint8_t pad = flags >> 4 & 3;
  if (padded % 4 != 0 || !row.admits(padded - pad)) return wrong_length(bytes.size(), row, pad);

  read_bth(bth, packet.headers.bth);
  packet.headers.bth.pad = pad;
  packet.icrc_before_psn = 0;
  read_behind_bth(row, bth, padded - pad, bth + bytes.size() - kIcrcBytes, packet);
  return {ParseResult::kRoce, Counter::kRxFrames};
}

/// Writes BTH and extension headers of `headers.bth.opcode`, whose row it is.
inline void write_transport(std::byte* to, const OpcodeRow& row, const Headers& headers, uint32_t pad) {
  write_bth(to, headers.bth, pad);
  write_extensions(row.headers, to, headers);
}

}  // namespace uroce::wire
