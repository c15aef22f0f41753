#include "apps/decode/aggregate.h"

#include <algorithm>
#include <cstring>

#include "drivers/port/packet/roce_headers.h"
#include "wire/big_endian.h"
#include "wire/frame.h"
#include "wire/header_sizes.h"
#include "wire/icrc/icrc.h"

namespace uroce::decode {
namespace {

using drivers::RoceHeaders;
using wire::load_be16;
using wire::load_u8;

constexpr size_t kLeastBytes = wire::kBthBytes + wire::kIcrcBytes;
constexpr size_t kStep = 4;  // pad bytes make every packet a multiple of it
/// ICRCs that are computed for one frame at most.
constexpr int kTriesMax = 64;

uint32_t icrc_behind(std::span<const std::byte> covered) {
  uint32_t icrc;
  std::memcpy(&icrc, covered.data() + covered.size(), sizeof icrc);
  return icrc;
}

uint32_t header_bytes(const HeaderPlaces& places) {
  return places.ipv4 ? RoceHeaders::kIpv4 : RoceHeaders::kIpv6;
}

/// The frame as if it had no tag: RoceHeaders writes and reads nothing before the IP header.
const std::byte* untagged(const std::byte* frame, const HeaderPlaces& places) {
  return frame + places.ip - wire::kEthernetBytes;
}

}  // namespace

bool checksum_is_left(std::span<const std::byte> frame, const HeaderPlaces& places) {
  if (!places.plain) return false;
  const std::byte* const udp = frame.data() + places.udp;
  const size_t udp_bytes = load_be16(udp + 4);
  if (udp_bytes < wire::kUdpBytes) return false;
  const uint16_t sum = RoceHeaders::pseudo_sum(untagged(frame.data(), places), header_bytes(places),
                                               udp_bytes - wire::kUdpBytes);
  uint16_t checksum;
  std::memcpy(&checksum, udp + 6, sizeof checksum);
  return checksum != 0 && checksum == sum;
}

bool Aggregate::begin(std::span<const std::byte> frame, size_t captured, const HeaderPlaces& places) {
  if (!places.plain) return false;
  places_ = places;
  const size_t behind = places.udp + wire::kUdpBytes;
  const size_t end = places.ip - wire::kEthernetBytes +
                     RoceHeaders::frame_bytes(untagged(frame.data(), places), header_bytes(places));
  if (end > frame.size() || std::min(end, captured) < behind + 2 * kLeastBytes) return false;
  headers_ = frame.first(behind);
  payload_bytes_ = end - behind;
  payload_ = frame.subspan(behind, std::min(end, captured) - behind);
  cut_ = payload_.size() < payload_bytes_;
  taken_ = 0;
  number_ = 0;
  return payload_bytes_ % kStep == 0 && find_segment_bytes();
}

bool Aggregate::find_segment_bytes() {
  int tries = 0;
  for (size_t bytes = kLeastBytes; bytes + kLeastBytes <= payload_.size() && tries < kTriesMax;
       bytes += kStep) {
    if (!can_be(bytes)) continue;
    ++tries;
    build(0, bytes, first_number());
    const std::span<const std::byte> covered = ip_packet();
    if (wire::icrc_of(covered) != icrc_behind(covered)) continue;
    segment_bytes_ = bytes;
    return true;
  }
  return false;
}

/// By what each BTH has in common with the first one: version and partition.
bool Aggregate::can_be(size_t segment_bytes) const {
  const size_t last = payload_bytes_ % segment_bytes;
  if (last != 0 && last < kLeastBytes) return false;
  for (size_t at = segment_bytes; at + 4 <= payload_.size(); at += segment_bytes) {
    if ((load_u8(payload_.data() + at + 1) & 0x0F) != 0) return false;
    if (load_be16(payload_.data() + at + 2) != load_be16(payload_.data() + 2)) return false;
  }
  return true;
}

uint16_t Aggregate::first_number() const {
  return places_.ipv4 ? load_be16(headers_.data() + places_.ip + 4) : uint16_t{0};
}

void Aggregate::build(size_t at, size_t bytes, uint16_t number) {
  packet_.resize(headers_.size() + bytes);
  std::memcpy(packet_.data(), headers_.data(), headers_.size());
  std::memcpy(packet_.data() + headers_.size(), payload_.data() + at, bytes);
  std::byte* const frame = packet_.data() + places_.ip - wire::kEthernetBytes;
  RoceHeaders::set(frame, header_bytes(places_), bytes, number, 0);
}

/// What the ICRC of the newest segment covers.
std::span<const std::byte> Aggregate::ip_packet() const {
  return std::span(packet_).subspan(places_.ip, packet_.size() - places_.ip - wire::kIcrcBytes);
}

std::span<const std::byte> Aggregate::next() {
  const size_t bytes = std::min(segment_bytes_, payload_bytes_ - taken_);
  if (bytes == 0 || taken_ + bytes > payload_.size()) return {};
  const uint16_t first = first_number();
  build(taken_, bytes, static_cast<uint16_t>(first + number_));
  if (places_.ipv4 && first == 0 && number_ > 0) {
    const std::span<const std::byte> covered = ip_packet();
    if (wire::icrc_of(covered) == icrc_behind(covered)) {
      build(taken_, bytes, 0);
      wire::append_icrc(packet_.data() + places_.ip, ip_packet().size());
    }
  }
  taken_ += bytes;
  ++number_;
  return packet_;
}

}  // namespace uroce::decode
