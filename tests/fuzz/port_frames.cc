#include "port_frames.h"

#include <cstring>
#include <iterator>
#include <span>
#include <string_view>

#include "net/arp.h"
#include "net/derived_mac.h"
#include "net/neighbour_discovery.h"
#include "net/vlan_tag.h"
#include "wire/big_endian.h"
#include "wire/flow.h"
#include "wire/frame.h"
#include "wire/internet_checksum.h"

namespace uroce::fuzz {

Frame PortFrames::any_frame() {
  Frame frame;
  switch (choices_.below(10)) {
    case 8:
    case 9:
      frame = any_query();
      break;
    case 0:
    case 1:
      frame = any_arp();
      break;
    case 2:
    case 3:
      frame = any_discovery();
      break;
    case 4:
      frame = any_echo();
      break;
    case 5: {
      frame.resize(choices_.below(200));
      for (std::byte& byte : frame) byte = static_cast<std::byte>(choices_.below(256));
      return frame;
    }
    default:
      frame = any_roce();
      break;
  }
  if (choices_.once_in(8)) {
    const auto length = static_cast<uint32_t>(frame.size());
    frame.resize(frame.size() + wire::kVlanTagBytes);
    net::put_tag(frame, length, choices_.once_in(4) ? static_cast<uint16_t>(choices_.below(1 << 16)) : kVlan);
  }
  if (choices_.once_in(4)) spoil(frame);
  return frame;
}

Frame PortFrames::any_arp() {
  Frame frame(net::kArpFrameBytes);
  const bool tagged = choices_.once_in(8);
  const auto host = [&] { return tagged ? in_vlan(any_host()) : ipv4(any_host()); };
  const net::ArpMessage message{.reply = choices_.once_in(2),
                                .sender_mac = any_mac(),
                                .sender = host(),
                                .target_mac = kMac,
                                .target = choices_.once_in(4) ? host() : ipv4(1)};
  net::write_arp(frame, message,
                 choices_.once_in(2) ? MacAddress{{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}} : to_us());
  return frame;
}

Frame PortFrames::any_discovery() {
  Frame frame(net::kDiscoveryFrameBytes);
  net::DiscoveryMessage message{.advertisement = choices_.once_in(2),
                                .source_mac = any_mac(),
                                .destination_mac = kMac,
                                .source = choices_.once_in(8) ? Gid{} : ipv6(any_host()),
                                .destination = ipv6(1),
                                .target = choices_.once_in(2) ? ipv6(1) : ipv6(any_host()),
                                .link_address = {}};
  if (choices_.once_in(2)) message.link_address = any_mac();
  if (choices_.once_in(2)) {
    message.destination = net::solicited_node(message.target);
    message.destination_mac = net::multicast_mac(message.destination);
  }
  message.solicited = choices_.once_in(2);
  message.override = choices_.once_in(2);
  frame.resize(net::write_discovery(frame, message));
  return frame;
}

Frame PortFrames::any_echo() {
  const size_t data = choices_.below(64);
  Frame frame(14 + 20 + 8 + data);
  std::memcpy(frame.data(), to_us().bytes.data(), 6);
  std::memcpy(frame.data() + 6, any_mac().bytes.data(), 6);
  wire::store_be16(frame.data() + 12, 0x0800);
  std::byte* const ip = frame.data() + 14;
  ip[0] = std::byte{0x45};
  wire::store_be16(ip + 2, static_cast<uint16_t>(20 + 8 + data));
  ip[8] = std::byte{64};
  ip[9] = std::byte{1};
  std::memcpy(ip + 12, ipv4(any_host()).bytes.data() + 12, 4);
  std::memcpy(ip + 16, ipv4(1).bytes.data() + 12, 4);
  const auto write_sum = [](std::byte* at, std::span<const std::byte> over) {
    const auto sum = static_cast<uint16_t>(~wire::fold_sum(wire::add_words(over)));
    std::memcpy(at, &sum, sizeof sum);
  };
  write_sum(ip + 10, {ip, 20});
  std::byte* const icmp = ip + 20;
  icmp[0] = std::byte{8};
  for (size_t i = 4; i < 8 + data; ++i) icmp[i] = static_cast<std::byte>(choices_.below(256));
  write_sum(icmp + 2, {icmp, 8 + data});
  return frame;
}

Frame PortFrames::any_query() {
  using namespace uroce::testing;
  constexpr std::string_view kSpecific[] = {kIgmpV2General, kIgmpV2Specific, kIgmpV3Specific,
                                            kMldV1General,  kMldV1Specific,  kMldV2Specific};
  const bool is_ipv4 = choices_.once_in(2);
  if (choices_.once_in(3)) return general_query(is_ipv4, static_cast<uint16_t>(choices_.below(1 << 16)));
  Frame frame = bytes_of(kSpecific[choices_.below(std::size(kSpecific))]);
  if (choices_.once_in(4)) frame.resize(frame.size() + choices_.below(40));
  if (!choices_.once_in(3)) return finished(frame);
  const size_t at = message_at(frame);
  frame[at + choices_.below(static_cast<uint32_t>(frame.size() - at))] =
      static_cast<std::byte>(choices_.below(256));
  return finished(frame);
}

Frame PortFrames::any_roce() {
  const bool is_ipv4 = !choices_.once_in(4);
  const uint32_t host = any_host();
  const wire::Path path{.source_mac = any_mac(),
                        .destination_mac = to_us(),
                        .source = is_ipv4 ? ipv4(host) : ipv6(host),
                        .destination = is_ipv4 ? ipv4(choices_.once_in(8) ? 2 : 1) : ipv6(1),
                        .hop_limit = 64,
                        .udp_source_port = static_cast<uint16_t>(0xC000 + choices_.below(2))};
  const wire::FrameTemplate before(path);
  wire::Headers headers;
  headers.bth.opcode = wire::Opcode::make(wire::Service::kRc, wire::Operation::kSendOnly);
  headers.bth.destination = {17};
  headers.bth.psn = Psn(static_cast<uint32_t>(choices_.below(1 << 16)));
  const uint32_t payload = choices_.below(64);
  Frame frame(wire::frame_bytes(before, headers.bth.opcode, payload));
  wire::write_headers(frame, before, headers, payload);
  wire::finish_frame(frame, before, headers.bth.opcode, payload);
  return frame;
}

/// A few bytes, the length, or what the flow cache takes for the flow's: lengths, identification and
/// checksums.
void PortFrames::spoil(Frame& frame) {
  if (frame.empty()) return;
  const auto size = static_cast<uint32_t>(frame.size());
  switch (choices_.below(4)) {
    case 0:
      frame.resize(choices_.below(size + 1));
      return;
    case 1:
      frame.resize(size + choices_.below(64));
      return;
    case 2: {
      if (size < wire::kPlainHeaderBytes) return;
      std::byte* const ip = frame.data() + 14;
      wire::store_be16(ip + 4, static_cast<uint16_t>(choices_.below(1 << 16)));
      if (choices_.once_in(2)) {
        const uint32_t total = choices_.below(size);
        wire::store_be16(ip + 2, static_cast<uint16_t>(total));
        wire::store_be16(ip + 24, static_cast<uint16_t>(total - 20));
      }
      wire::store_be16(ip + 10, 0);
      const auto sum = static_cast<uint16_t>(~wire::fold_sum(wire::add_words({ip, 20})));
      std::memcpy(ip + 10, &sum, sizeof sum);
      return;
    }
    default:
      for (uint32_t i = 1 + choices_.below(3); i > 0; --i)
        frame[choices_.below(size)] ^= static_cast<std::byte>(1 << choices_.below(8));
      return;
  }
}

}  // namespace uroce::fuzz
