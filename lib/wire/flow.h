#pragma once

#include <smmintrin.h>

#include <array>
#include <cstddef>
#include <span>

#include "wire/layers.h"
#include "wire/packet.h"
#include "wire/transport.h"

namespace uroce::wire {

/// Ethernet, IPv4 and UDP.
inline constexpr size_t kPlainHeaderBytes = kEthernetBytes + kIpv4Bytes + kUdpBytes;

/// The headers up to UDP of one frame, or what two of them differ in.
class PlainHeaders {
 public:
  PlainHeaders() = default;
  /// Reads kPlainHeaderBytes.
  explicit PlainHeaders(const std::byte* bytes)
      : vectors_{load(bytes), load(bytes + kVector), load(bytes + kPlainHeaderBytes - kVector)} {}

  PlainHeaders operator^(const PlainHeaders& other) const {
    return each(other, [](__m128i a, __m128i b) { return _mm_xor_si128(a, b); });
  }
  PlainHeaders operator&(const PlainHeaders& other) const {
    return each(other, [](__m128i a, __m128i b) { return _mm_and_si128(a, b); });
  }
  [[nodiscard]] bool are_zero() const {
    const __m128i all = _mm_or_si128(_mm_or_si128(vectors_[0], vectors_[1]), vectors_[2]);
    return _mm_testz_si128(all, all) != 0;
  }

 private:
  // Three vectors cover the headers; the last one overlaps.
  static constexpr size_t kVector = sizeof(__m128i);
  static_assert(kPlainHeaderBytes > 2 * kVector && kPlainHeaderBytes <= 3 * kVector);
  static __m128i load(const std::byte* at) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)); }
  template <typename Operation>
  PlainHeaders each(const PlainHeaders& other, Operation operation) const {
    PlainHeaders result;
    for (size_t i = 0; i < 3; ++i) result.vectors_[i] = operation(vectors_[i], other.vectors_[i]);
    return result;
  }

  __m128i vectors_[3];
};

/// The flow of one packet, to recognize the next ones by: most of what comes begins as the last one did
/// (MACs, addresses, all but lengths and the UDP source port). Whatever was found of that one by its
/// addresses holds for them, too. Many are even like it in each byte up to the PSN: then so is all that
/// was found of it. Untagged IPv4 only.
class FlowCache {
 public:
  /// `packet` was parsed with success, and its frame is still there; it need not be later.
  void learn(const Packet& packet);
  void forget() {
    ip_bytes_ = 0;
    forget_packet();
  }

  /// Whether a frame belongs to the flow, and nothing is wrong with it up to the UDP header: then this is the
  /// length of its IP packet. 0: it is to be parsed by itself.
  [[nodiscard]] size_t match(std::span<const std::byte> frame);

  /// Whether such a frame is, up to the PSN, that of the packet which was parsed last: then that is all that
  /// the two do not share, with payload, ICRC and extension headers.
  [[nodiscard]] bool is_prediction_hit(std::span<const std::byte> frame) const {
    return last_ != nullptr && load_beginning(frame) == beginning_;
  }
  /// parse_frame() of such a frame, which is sound as the last one was.
  void parse_prediction_hit(std::span<const std::byte> frame, size_t ip_bytes, Packet& packet) {
    const std::byte* const bth = frame.data() + kPlainHeaderBytes;
    static_cast<Flow&>(packet) = flow_;
    packet.headers.bth = bth_;
    read_psn_word(bth + kBthBytes - kPsnWordBytes, packet.headers.bth);
    packet.ip_packet = {frame.data() + kEthernetBytes, ip_bytes - kIcrcBytes};
    // Computed for the second of a kind.
    if (icrc_before_psn_ == 0) [[unlikely]]
      icrc_before_psn_ = icrc_before_psn(packet.ip_packet);
    packet.icrc_before_psn = icrc_before_psn_;
    read_behind_bth(*last_, bth, payload_bytes_, packet.ip_packet.data() + packet.ip_packet.size(), packet);
  }

  /// parse_frame() of a frame of the flow, at a fraction of its cost.
  ParseOutcome parse_hit(std::span<const std::byte> frame, size_t ip_bytes, Packet& packet) {
    static_cast<Flow&>(packet) = flow_;
    packet.ip_packet = {frame.data() + kEthernetBytes, ip_bytes - kIcrcBytes};
    const ParseOutcome outcome =
        parse_transport({frame.data() + kPlainHeaderBytes, ip_bytes - kIpv4Bytes - kUdpBytes}, packet);
    if (outcome.result == ParseResult::kRoce) {
      learn_packet(frame, packet);
    } else {
      forget_packet();
    }
    return outcome;
  }

 private:
  /// When the frame's headers differ from the last ones only in the UDP source port, lengths, identification
  /// and the header checksum, and these are right by themselves. They are the last ones from now on.
  [[nodiscard]] size_t match_varied(const std::byte* frame, const PlainHeaders& headers);

  static uint64_t load_beginning(std::span<const std::byte> frame) {
    uint64_t beginning;
    std::memcpy(&beginning, frame.data() + kPlainHeaderBytes, sizeof beginning);
    return beginning;
  }
  void learn_packet(std::span<const std::byte> frame, const Packet& packet) {
    static_assert(kBthBytes - kPsnWordBytes == sizeof beginning_);
    last_ = packet.row;
    beginning_ = load_beginning(frame);
    bth_ = packet.headers.bth;
    payload_bytes_ = packet.payload.size();
    icrc_before_psn_ = 0;
  }
  void forget_packet() { last_ = nullptr; }

  size_t ip_bytes_ = 0;   // of the packet that was seen last; 0: none is known
  PlainHeaders headers_;  // the same
  Flow flow_;
  // Of the same packet, if it was parsed with success.
  const OpcodeRow* last_ = nullptr;
  uint64_t beginning_ = 0;  // of its BTH, up to the PSN
  Bth bth_;
  size_t payload_bytes_ = 0;
  uint32_t icrc_before_psn_ = 0;  // 0: not computed
};

inline size_t FlowCache::match(std::span<const std::byte> frame) {
  if (ip_bytes_ == 0 || frame.size() < kPlainHeaderBytes) return 0;
  const PlainHeaders headers(frame.data());
  // Headers that are the same in each byte are as right as the others were.
  const size_t bytes = (headers ^ headers_).are_zero() ? ip_bytes_ : match_varied(frame.data(), headers);
  if (bytes > frame.size() - kEthernetBytes) return 0;
  // A checksum would be one of the payload, too.
  const bool has_checksum = load_be16(frame.data() + kPlainHeaderBytes - 2) != 0;
  return has_checksum ? 0 : bytes;
}

}  // namespace uroce::wire
