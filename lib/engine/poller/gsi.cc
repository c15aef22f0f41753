// Decision: an answer of the communication manager goes to a known neighbour, else to the Ethernet address
// that the message came from. Strangers cause no ARP. A repeated DREQ resolves again.
#include "engine/poller/gsi.h"

#include <algorithm>
#include <cerrno>

#include "net/derived_mac.h"
#include "wire/ecn.h"
#include "wire/vlan.h"

namespace uroce::engine {
namespace {

constexpr uint16_t kMembership = 0x8000;
constexpr uint16_t kDefaultPartition = 0x7FFF;

// Neighbours do not tell when they have found out.
constexpr Duration kLookEvery = milliseconds(1);

/// No host's address is a group's, and an answer to a group would reach all its members.
bool may_be_answered(const wire::Packet& packet) {
  return !net::is_multicast(packet.source_mac) && packet.source_mac != MacAddress{} &&
         !net::is_multicast(packet.source) && packet.source != Gid{};
}

}  // namespace

std::optional<Counter> Gsi::receive(const wire::Packet& packet, Instant now, port::TxBatch& batch) {
  const wire::Headers& headers = packet.headers;
  if (headers.bth.opcode != wire::Opcode::make(wire::Service::kUd, wire::Operation::kSendOnly))
    return Counter::kDropService;
  if ((headers.bth.partition_key & ~kMembership) != kDefaultPartition) return Counter::kDropPartitionKey;
  if (headers.deth.qkey != wire::kGsiQkey) return Counter::kDropQkey;
  if (packet.payload.size() != wire::kMadBytes) return Counter::kDropPayloadLength;
  if (!may_be_answered(packet)) return Counter::kDropNotOurAddress;
  batch_ = &batch;
  now_ = now;
  agent_.receive({.local = packet.destination,
                  .remote = packet.source,
                  .traffic_class = wire::without_ecn(packet.traffic_class),
                  .service_level = wire::priority_of(packet.vlan_tci),
                  .link = packet.source_mac},
                 packet.payload, now, *this);
  note_deadline(now);
  return std::nullopt;
}

void Gsi::pump(Instant now, port::TxBatch& batch) {
  batch_ = &batch;
  now_ = now;
  retry_resolutions(now);
  agent_.pump(now, *this);
  note_deadline(now);
}

void Gsi::note_deadline(Instant now) {
  deadline_ = std::min(agent_.deadline(), resolutions_.empty() ? kNever : now + kLookEvery);
}

void Gsi::resolve(const Gid& local, const Gid& remote, uint64_t resolver, Instant now, Instant deadline) {
  MacAddress mac;
  const int answer = find_mac(local, remote, now, mac);
  if (answer != EINPROGRESS) return user_.on_resolved(resolver, answer);
  resolutions_.push_back({local, remote, resolver, deadline});
  deadline_ = std::min(deadline_, now + kLookEvery);
}

void Gsi::forget(uint64_t resolver) {
  std::erase_if(resolutions_, [&](const Resolution& r) { return r.resolver == resolver; });
}

void Gsi::retry_resolutions(Instant now) {
  // The user that is notified may resolve again, or forget.
  for (size_t left = resolutions_.size(); left > 0 && !resolutions_.empty(); --left) {
    const Resolution resolution = resolutions_.front();
    resolutions_.erase(resolutions_.begin());
    MacAddress mac;
    const int answer = find_mac(resolution.local, resolution.remote, now, mac);
    if (answer == EINPROGRESS && now < resolution.deadline)
      resolutions_.push_back(resolution);
    else
      user_.on_resolved(resolution.resolver, answer == EINPROGRESS ? ETIMEDOUT : answer);
  }
}

uint16_t Gsi::vlan_of(const Gid& local) const {
  const net::GidTable& gids = options_.addresses.seen().gids;
  return gids.vlan_of(gids.find(local).value_or(0));
}

int Gsi::find_mac(const Gid& local, const Gid& remote, Instant now, MacAddress& mac) {
  mac = options_.mac;
  const uint16_t vlan = vlan_of(local);
  if (options_.addresses.seen().gids.owns(remote, vlan)) return 0;
  return options_.links.of(vlan).find_mac(remote, now, mac);
}

bool Gsi::is_ours(const cm::Address& address) const {
  return options_.addresses.seen().gids.owns(address.remote, vlan_of(address.local));
}

int Gsi::find_way(const cm::Address& address, MacAddress& mac) {
  if (address.link == MacAddress{} || is_ours(address))
    return find_mac(address.local, address.remote, now_, mac);
  // A neighbour that is known is where it is known to be: a stranger with its address gets no answer.
  mac = options_.links.of(vlan_of(address.local)).lookup(address.remote, now_).value_or(address.link);
  return 0;
}

cm::Sent Gsi::send(const cm::Address& address, const wire::CmMad& mad) {
  MacAddress mac;
  const int answer = find_way(address, mac);
  if (answer == EINPROGRESS) return cm::Sent::kLater;
  // There is no such host, or no way leads there: the peer does not answer, for all that we know.
  if (answer != 0) return cm::Sent::kYes;
  port::TxFrame* const frame = batch_->next();
  if (frame == nullptr) return cm::Sent::kNoRoom;

  wire::Headers headers;
  headers.bth.opcode = wire::Opcode::make(wire::Service::kUd, wire::Operation::kSendOnly);
  headers.bth.destination = kNumber;
  headers.bth.psn = next_psn_;
  headers.deth = {.qkey = wire::kGsiQkey, .source = kNumber};
  ++next_psn_;
  const wire::FrameTemplate where(path_to(address, mac));
  const std::span<std::byte> buffer(frame->data, frame->capacity);
  wire::write_cm(wire::write_headers(buffer, where, headers, wire::kMadBytes), mad);
  frame->length = wire::finish_frame(buffer, where, headers.bth.opcode, wire::kMadBytes);
  const bool ours = is_ours(address);
  frame->to_self = ours && !options_.shared;
  frame->to_group = false;
  frame->on_host = ours && options_.shared;
  frame->has_icrc = true;
  batch_->commit();
  return cm::Sent::kYes;
}

wire::Path Gsi::path_to(const cm::Address& address, MacAddress mac) const {
  const uint16_t vlan = vlan_of(address.local);
  return {
      .source_mac = options_.mac,
      .destination_mac = mac,
      .has_vlan = vlan != 0,
      .vlan_tci = vlan != 0 ? wire::make_tci(vlan, address.service_level) : uint16_t{0},
      .source = address.local,
      .destination = address.remote,
      .traffic_class = address.traffic_class,
      .hop_limit = address.hop_limit,
      .udp_source_port = wire::udp_source_port(options_.source_ports, address.flow_label, kNumber, kNumber),
      .flow_label = address.flow_label};
}

}  // namespace uroce::engine
