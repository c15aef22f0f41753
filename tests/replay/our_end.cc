#include "our_end.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "engine/device/device_state.h"
#include "engine/platform/eal.h"
#include "qp/recovery/transport_timers.h"
#include "tests/sim/virtual_clock.h"
#include "wire/big_endian.h"
#include "wire/icrc/icrc.h"
#include "wire/layers.h"

namespace uroce::replay {

namespace {

constexpr uint32_t kDepth = 256;
constexpr mem::Access kAccess = mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead | mem::kRemoteAtomic;
/// The capture's zero.
constexpr Instant kStart{1'000'000'000};

using Clock = sim::VirtualClock;

PathMtu mtu_code(uint32_t bytes) {
  for (const PathMtu mtu : {PathMtu::k256, PathMtu::k512, PathMtu::k1024, PathMtu::k2048, PathMtu::k4096}) {
    if (path_mtu_bytes(mtu) == bytes) return mtu;
  }
  throw std::runtime_error("not a path MTU: " + std::to_string(bytes));
}

engine::Configuration configuration_for(const Conversation& conversation, size_t ours) {
  engine::Configuration configuration;
  configuration.poller_mode = engine::PollerMode::kDedicated;  // and the threads are not started
  configuration.tail_probes = false;                           // the kernel has none
  engine::DeviceConfiguration& device = configuration.devices.emplace_back();
  device.mac = conversation.ends[ours].mac;
  device.mig_req = false;  // nor is the bit set in a packet of rxe's
  const Gid address = conversation.ends[ours].address;
  device.addresses = {{address, static_cast<uint8_t>(address.is_ipv4() ? 24 : 64)}};
  const Station& peer = conversation.ends[1 - ours];
  device.neighbours = {{peer.address, peer.mac}};
  return configuration;
}

}  // namespace

OurEnd::OurEnd(const Conversation& conversation, size_t ours, const Requests& own, const Requests& peers)
    : OurEnd(std::make_unique<FedPort>(conversation.ends[ours].mac), conversation, ours, own, peers) {}

OurEnd::OurEnd(std::unique_ptr<FedPort> port, const Conversation& conversation, size_t ours,
               const Requests& own, const Requests& peers)
    : own_(own), peers_(peers), port_(*port) {
  Clock::set(kStart);
  const engine::Configuration configuration = configuration_for(conversation, ours);
  auto state =
      std::make_unique<engine::DeviceState>(engine::DeviceState::Options{.device = configuration.devices[0],
                                                                         .configuration = configuration,
                                                                         .port = std::move(port),
                                                                         .lcores = {engine::kNoLcore},
                                                                         .clock = &Clock::now,
                                                                         .nap = &Clock::nap});
  state_ = state.get();
  device_ = std::make_unique<engine::Device>(std::move(state));
  domain_ = device_->allocate_domain().value();
  memory_ = std::make_unique<Memory>(device_->regions(), domain_, own, peers);
  send_completions_ = device_->create_completion_queue({.depth = kDepth});
  receive_completions_ = device_->create_completion_queue({.depth = kDepth});
  queue_pair_ = device_
                    ->create_queue_pair({.domain = domain_,
                                         .signal_all = true,
                                         .send_depth = kDepth,
                                         .receive_depth = kDepth,
                                         .send_completions = send_completions_.get(),
                                         .receive_completions = receive_completions_.get()})
                    .value();
  connect(conversation, ours);
}

OurEnd::~OurEnd() {
  device_->destroy_queue_pair(*queue_pair_);
  device_->retire_completion_queue(*send_completions_);
  device_->retire_completion_queue(*receive_completions_);
  memory_.reset();
  device_->free_domain(domain_);
}

void OurEnd::modify(qp::State state, qp::AttributeMask mask) {
  attributes_.state = state;
  const int error = device_->modify_queue_pair(*queue_pair_, attributes_, mask | qp::kMaskState);
  if (error != 0) throw std::runtime_error("modify_queue_pair: error " + std::to_string(error));
}

/// Everything that the packets tell about the queue pair; the rest is what the programs of the captures set,
/// or does not show.
void OurEnd::connect(const Conversation& conversation, size_t ours) {
  attributes_.access = kAccess;
  attributes_.path.source = conversation.ends[ours].address;
  attributes_.path.destination = conversation.ends[1 - ours].address;
  attributes_.path_mtu = mtu_code(conversation.mtu);
  attributes_.destination = conversation.ends[1 - ours].number;
  attributes_.sq_psn = own_.first;
  attributes_.rq_psn = peers_.first;
  attributes_.timeout = conditions_of(conversation.capture, kEndNames[ours]).timeout;
  attributes_.retry_count = 7;
  attributes_.rnr_retry = qp::kRnrRetryForEver;
  attributes_.min_rnr_timer = 12;
  attributes_.max_rd_atomic = attributes_.max_dest_rd_atomic = 16;
  for (const Packet& packet : conversation.packets) {
    if (conversation.sender(packet) != ours) continue;
    attributes_.path.traffic_class = packet.parsed.traffic_class;
    attributes_.path.hop_limit = packet.parsed.hop_limit;
    if (packet.has_aeth() && packet.aeth().kind == wire::AethKind::kRnrNak) {
      attributes_.min_rnr_timer = packet.aeth().value;
    }
  }
  for (const Message& message : own_.messages) {
    if (message.given_up) attributes_.rnr_retry = static_cast<uint8_t>(message.not_ready - 1);
  }
  using namespace qp;
  modify(State::kInit, kMaskPkeyIndex | kMaskPort | kMaskAccessFlags);
  modify(State::kRtr,
         kMaskAv | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn | kMaskMaxDestRdAtomic | kMaskMinRnrTimer);
  modify(State::kRts, kMaskTimeout | kMaskRetryCount | kMaskRnrRetry | kMaskSqPsn | kMaskMaxRdAtomic);
  settle();
}

Duration OurEnd::ack_timeout() const { return qp::ack_timeout(attributes_.timeout); }

Instant OurEnd::now() const { return {(Clock::now() - kStart).ns}; }

void OurEnd::settle() {
  engine::Poller& poller = *state_->pollers[0];
  while (poller.turn(Clock::now()) == engine::TurnOutcome::kWorked) {
  }
}

void OurEnd::advance(Instant to) {
  const Instant end = kStart + Duration{to.ns};
  const engine::Poller& poller = *state_->pollers[0];
  while (Clock::now() < end) {
    // A poller's own clock advances by no more than this from one turn to the next.
    Duration step = std::min(engine::kClockStepMax, end - Clock::now());
    step = std::min(step, std::max(const_cast<engine::Poller&>(poller).time_to_deadline(), microseconds(1)));
    Clock::set(Clock::now() + step);
    settle();
  }
}

void OurEnd::feed(const Packet& packet) {
  memory_->owner_stores(packet.number);
  Bytes bytes = packet.bytes;
  const size_t ip = static_cast<size_t>(packet.parsed.ip_packet.data() - packet.bytes.data());
  const size_t ip_bytes = packet.parsed.ip_packet.size();
  std::byte* const bth =
      bytes.data() + ip + (packet.parsed.ipv4 ? wire::kIpv4Bytes : wire::kIpv6Bytes) + wire::kUdpBytes;
  wire::store_be32(bth + 4, static_cast<uint32_t>(bth[4]) << 24 | queue_pair_->number.value);
  if (packet.parsed.row->headers.has(wire::Header::kReth)) {
    wire::store_be32(bth + wire::kBthBytes + 8, memory_->key(packet.parsed.headers.reth).value);
  }
  if (packet.parsed.row->headers.has(wire::Header::kAtomicEth)) {
    wire::store_be32(bth + wire::kBthBytes + 8, memory_->key(packet.parsed.headers.atomic.rkey).value);
  }
  if (packet.parsed.row->headers.has(wire::Header::kInvalidate)) {
    wire::store_be32(bth + wire::kBthBytes, memory_->key(packet.parsed.headers.invalidate).value);
  }
  const uint32_t icrc = wire::icrc_of({bytes.data() + ip, ip_bytes});
  for (size_t i = 0; i < wire::kIcrcBytes; ++i)
    bytes[ip + ip_bytes + i] = static_cast<std::byte>(icrc >> 8 * i);
  port_.feed(std::move(bytes));
}

std::vector<FedPort::Sent> OurEnd::take_sent() {
  std::vector<FedPort::Sent> sent = port_.take_sent();
  for (FedPort::Sent& frame : sent) frame.time = {(frame.time - kStart).ns};
  return sent;
}

void OurEnd::post_send(size_t index) {
  const Message& message = own_.messages[index];
  queue::SendQueue& sends = queue_pair_->send_queue;
  queue::SendRequest& request = *sends.reserve();
  request.wr_id = index;
  request.remote_address = message.address;
  request.rkey = message.rkey;
  request.immediate = message.immediate;
  request.invalidate = message.invalidate;
  request.length = message.length;
  request.segments = message.length > 0 ? 1 : 0;
  request.operation = message.operation;
  request.signaled = true;
  request.solicited = message.solicited;
  if (message.length > 0) sends.segments(request)[0] = memory_->buffer(index);
  if (message.is_atomic()) sends.operands(request) = message.operands;
  sends.publish();
  device_->ring_doorbell(*queue_pair_);
  settle();
}

void OurEnd::post_receive(size_t index) {
  queue::ReceiveQueue& receives = queue_pair_->receive_queue;
  queue::ReceiveRequest& request = *receives.reserve();
  const queue::Segment segment = memory_->receive(index);
  request = {.wr_id = index,
             .length = segment.length,
             .segments = static_cast<uint16_t>(segment.length > 0 ? 1 : 0)};
  if (segment.length > 0) receives.segments(request)[0] = segment;
  receives.publish();
}

std::vector<queue::Completion> OurEnd::poll(queue::CompletionQueue& completions) {
  std::vector<queue::Completion> found(kDepth);
  found.resize(completions.poll(found));
  return found;
}

}  // namespace uroce::replay
