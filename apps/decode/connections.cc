// Decision: one thread follows all connections. Which directions belong together is known only when a
// response tells, and most captures have one pair of hosts. Cost: this stage is a sixth of the work on
// 64-byte packets (`perf/run --only decode`).
#include "apps/decode/connections.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace uroce::decode {
namespace {

using wire::Service;

bool is_connected(Service service) {
  return service == Service::kRc || service == Service::kXrc || service == Service::kUc;
}

}  // namespace

size_t Connections::Hash::operator()(const Key& of) const {
  using Words = std::array<uint64_t, 2>;
  const auto source = std::bit_cast<Words>(of.source);
  const auto destination = std::bit_cast<Words>(of.destination);
  // The upper halves are those of networks, and the same for nearly all.
  return keyed_hash(key, source[1] ^ std::rotl(source[0], 32) ^ uint64_t{of.qp.value} << 40,
                    destination[1] ^ std::rotl(destination[0], 32) ^ of.qp.value);
}

void Connections::receive(Inspected& packet, std::string& note) {
  if (packet.kind != Inspected::Kind::kRoce) return;
  if (packet.cm) {
    const auto established = managed_.receive(packet);
    if (established) take_connection(*established);
    return;
  }
  const Service service = packet.row->opcode.service();
  if (!is_connected(service)) return;
  // Damaged packets reach no queue pair.
  if (std::ranges::any_of(packet.findings, [](const Finding& one) { return one.rule == Rule::kDropIcrc; }))
    return;
  Stream* const it = stream({packet.source, packet.destination, packet.bth.destination}, service);
  if (it == nullptr) {
    ++not_followed_;
    return;
  }
  ++it->counts.packets;
  it->counts.bytes += packet.bytes;
  if (service == Service::kUc) return receive_unreliable(packet, *it);
  receive_connected(packet, *it, note);
}

Stream* Connections::stream(const Key& key, Service service) {
  if (newest_ != nullptr && newest_->qp == key.qp && newest_->source == key.source &&
      newest_->destination == key.destination)
    return newest_;
  const auto found = streams_.find(key);
  if (found != streams_.end()) return newest_ = found->second;
  if (all_.size() == kStreamsMax) return nullptr;
  Stream& made = all_.emplace_back();
  made.source = key.source;
  made.destination = key.destination;
  made.qp = key.qp;
  made.service = service;
  streams_.emplace(key, &made);
  by_addresses_[{key.source, key.destination}].push_back(&made);
  return newest_ = &made;
}

void Connections::receive_connected(Inspected& packet, Stream& stream, std::string& note) {
  if (!packet.row->response)
    return stream.requests.receive(packet, *stream.mtu, stream.counts, note, packet.findings);
  stream.has_responses = true;
  if (stream.peer == nullptr) find_peer(packet, stream);
  if (stream.peer != nullptr)
    stream.peer->requests.receive_response(packet, *stream.mtu, stream.counts, packet.findings);
}

/// On UC a packet is judged by the one before it alone, and only if it has the PSN behind that.
void Connections::receive_unreliable(Inspected& packet, Stream& stream) {
  check_payload(packet, *stream.mtu, packet.findings);
  const bool in_order = stream.has_former && packet.bth.psn == stream.former_psn + 1;
  if (in_order) check_order(stream.former_opcode, packet, packet.findings);
  stream.message.receive(packet, in_order, packet.findings);
  stream.has_former = true;
  stream.former_psn = packet.bth.psn;
  stream.former_opcode = packet.row->opcode;
}

/// Looks for the stream whose requests explain the response: if one alone explains it and all responses
/// before it, that is the other direction.
void Connections::find_peer(const Inspected& response, Stream& stream) {
  const auto explains = [&](Stream* one) {
    return one->peer == nullptr && one != &stream && one->requests.explains(response, *one->mtu);
  };
  std::vector<Stream*> left;
  if (stream.candidates.empty()) {
    const auto reverse = by_addresses_.find({stream.destination, stream.source});
    if (reverse == by_addresses_.end()) return;
    std::ranges::copy_if(reverse->second, std::back_inserter(left), explains);
  } else {
    std::ranges::copy_if(stream.candidates, std::back_inserter(left), explains);
  }
  if (left.size() == 1) return join(stream, *left.front());
  stream.candidates = std::move(left);
}

bool Connections::is_one_sided(const Stream& stream) const {
  if (stream.service == Service::kUc) return false;
  const bool asks = stream.requests.has_requests();
  if (asks == stream.has_responses) return false;
  const auto is_other_side = [&](const Stream* one) {
    return asks ? one->has_responses : one->requests.has_requests();
  };
  if (stream.peer != nullptr) return !is_other_side(stream.peer);
  const auto reverse = by_addresses_.find({stream.destination, stream.source});
  return reverse == by_addresses_.end() || std::ranges::none_of(reverse->second, is_other_side);
}

void Connections::join(Stream& one, Stream& other) {
  one.peer = &other;
  other.peer = &one;
  one.candidates = {};
  other.candidates = {};
  if (*one.mtu == 0) *one.mtu = *other.mtu;
  other.mtu = one.mtu;
}

void Connections::take_connection(const ManagedConnections::Established& established) {
  const auto& [active, passive, mtu] = established;
  Stream* const forth = stream({active.gid, passive.gid, passive.qp}, Service::kRc);
  Stream* const back = stream({passive.gid, active.gid, active.qp}, Service::kRc);
  if (forth == nullptr || back == nullptr || forth == back) return;
  for (Stream* const one : {forth, back}) {
    if (one->peer != nullptr) {
      one->peer->peer = nullptr;
      one->peer->mtu = &one->peer->own_mtu;
    }
    one->peer = nullptr;
    one->mtu = &one->own_mtu;
    *one->mtu = mtu;
  }
  // Each end says with which number it wants to be sent to.
  forth->requests.expect(passive.psn);
  back->requests.expect(active.psn);
  join(*forth, *back);
}

}  // namespace uroce::decode
