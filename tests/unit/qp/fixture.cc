#include "tests/unit/qp/fixture.h"

#include <algorithm>
#include <cstring>

namespace uroce::qp::testing {

namespace {

constexpr uint32_t kFrameBytesMax = 4096 + 192;
constexpr QpNumber kOurs{0x11};
constexpr QpNumber kPeers{0x22};

wire::Path path_to_peer() {
  wire::Path path;
  path.source_mac = {{2, 0, 0, 0, 0, 1}};
  path.destination_mac = {{2, 0, 0, 0, 0, 2}};
  path.source = Gid::from_ipv4({10, 0, 0, 1});
  path.destination = Gid::from_ipv4({10, 0, 0, 2});
  return path;
}

}  // namespace

Bytes pattern(size_t count, uint32_t salt) {
  Bytes bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251 + salt * 31 + 1);
  return bytes;
}

uint16_t CapturingQueue::allocate(std::span<port::TxFrame> frames) {
  for (port::TxFrame& frame : frames)
    frame = {.data = new std::byte[kFrameBytesMax], .capacity = kFrameBytesMax};
  return static_cast<uint16_t>(frames.size());
}

uint16_t CapturingQueue::transmit(std::span<const port::TxFrame> frames) {
  for (const port::TxFrame& frame : frames) {
    sent.emplace_back(frame.data, frame.data + frame.length);
    delete[] frame.data;
  }
  return static_cast<uint16_t>(frames.size());
}

void CapturingQueue::free(std::span<const port::TxFrame> frames) {
  for (const port::TxFrame& frame : frames) delete[] frame.data;
}

QueuePairTest::QueuePairTest(Type its_type, uint32_t datagram_mtu)
    : type(its_type),
      memory(pattern(kMemory)),
      regions({.entries_max = 1u << 10, .grace_period = &other_poller, .bus_space = &bus}),
      sends({.depth = kDepth,
             .segments_max = 8,
             .inline_max = 600,
             .attachment_bytes = its_type == Type::kUd        ? uint32_t{sizeof(DatagramAddress)}
                                 : its_type == Type::kXrcSend ? uint32_t{sizeof(queue::SrqNumber)}
                                                              : 0}),
      receives({.depth = kDepth, .segments_max = 8}),
      send_queue_completions({.depth = kDepth, .number = 3}),
      receive_queue_completions({.depth = kDepth, .number = 4}),
      turn{.now = {},
           .tx = tx,
           .placer = placer,
           .completions = completions,
           .regions = regions,
           .counters = counters} {
  turn.now = Instant{1'000'000};
  keys = register_region(memory.data(), memory.size(), kIova,
                         mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead);
  read_only_keys = register_region(memory.data(), memory.size(), kIova, mem::kRemoteRead);
  options.transport = &transport;
  options.type = type;
  options.number = kOurs;
  options.identity = kOurIdentity;
  options.domain = domain;
  options.datagram_mtu = datagram_mtu;
  transport.credits = false;
  options.send_queue = &sends;
  options.receive_queue = &receives;
  options.send_completions = &send_queue_completions;
  options.receive_completions = &receive_queue_completions;
  options.listener = &events;
  queue_pair = std::make_unique<QueuePairStorage>(options);

  attributes.access = mem::kRemoteWrite | mem::kRemoteRead;
  attributes.path = path_to_peer();
  attributes.path_mtu = PathMtu::k256;
  attributes.destination = kPeers;
  attributes.qkey = kQkey;
  attributes.rq_psn = kPeerPsn;
  attributes.sq_psn = kOurPsn;
  attributes.timeout = 10;  // 4.194304 ms
  attributes.retry_count = 3;
  attributes.rnr_retry = 2;
  attributes.min_rnr_timer = 12;  // 0.64 ms
  attributes.max_rd_atomic = 2;
  attributes.max_dest_rd_atomic = 2;
}

mem::RegionKeys QueuePairTest::register_region(std::byte* at, uint64_t bytes, uint64_t iova,
                                               mem::Access access) {
  return regions
      .register_user({.domain = domain, .address = at, .length = bytes, .iova = iova, .access = access})
      .value();
}

void QueuePairTest::grant(mem::Access access) {
  attributes.access = access;
  static_cast<void>(regions.deregister(keys.lkey));
  keys = register_region(memory.data(), memory.size(), kIova, access);
}

int QueuePairTest::modify(State state, AttributeMask mask) {
  Attributes changed = attributes;
  changed.state = state;
  const int error = queue_pair.lazy().modify(changed, mask | kMaskState, turn);
  completions.publish_all();
  return error;
}

void QueuePairTest::bring_up(State to) {
  const bool requester = type == Type::kRc || type == Type::kXrcSend;
  const bool responder = type == Type::kRc || type == Type::kXrcReceive;
  const AttributeMask more_rtr = responder ? kMaskMaxDestRdAtomic | kMaskMinRnrTimer : AttributeMask{};
  const AttributeMask more_rts = requester ? kMaskTimeout | kMaskRetryCount | kMaskRnrRetry | kMaskMaxRdAtomic
                                 : responder ? kMaskTimeout
                                             : AttributeMask{};
  if (type == Type::kUd) {
    ASSERT_EQ(modify(State::kInit, kMaskQkey | kMaskPkeyIndex | kMaskPort), 0);
    ASSERT_EQ(modify(State::kRtr), 0);
    if (to == State::kRtr) return;
    ASSERT_EQ(modify(State::kRts, kMaskSqPsn), 0);
    return;
  }
  ASSERT_EQ(modify(State::kInit, kMaskAccessFlags | kMaskPkeyIndex | kMaskPort), 0);
  if (to == State::kInit) return;
  ASSERT_EQ(modify(State::kRtr, kMaskAv | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn | more_rtr), 0);
  if (to == State::kRtr) return;
  ASSERT_EQ(modify(State::kRts, kMaskSqPsn | more_rts), 0);
}

queue::Segment QueuePairTest::segment(uint64_t offset, uint32_t length) const {
  return {kIova + offset, length, keys.lkey};
}

queue::SendRequest& QueuePairTest::reserve_local(queue::SendOperation operation) {
  static uint64_t next_id = 500'000;
  queue::SendRequest& request = *sends.reserve();
  request.wr_id = next_id++;
  request.operation = operation;
  request.signaled = true;
  return request;
}

queue::SendRequest& QueuePairTest::post_invalidate(MemoryKey of) {
  queue::SendRequest& request = reserve_local(queue::SendOperation::kLocalInvalidate);
  request.invalidate = of;
  sends.publish();
  return request;
}

/// Published at once; a test that changes the request does so before the next pump.
queue::SendRequest& QueuePairTest::post(queue::SendOperation operation, uint32_t length, uint64_t offset) {
  static uint64_t next_id = 1;
  queue::SendRequest& request = *sends.reserve();
  request.wr_id = next_id++;
  request.operation = operation;
  request.length = length;
  request.signaled = true;
  request.remote_address = kRemote;
  request.rkey = {kRkey};
  request.segments = 1;
  sends.segments(request)[0] = segment(offset, length);
  if (type == Type::kUd)
    sends.attach(request, DatagramAddress{.frame = wire::FrameTemplate(attributes.path),
                                          .destination = attributes.destination,
                                          .qkey = kPeersQkey});
  if (type == Type::kXrcSend) sends.attach(request, kPeersReceives);
  sends.publish();
  return request;
}

void QueuePairTest::post_receive(uint32_t length, uint64_t offset) {
  post_receive_pieces({segment(offset, length)});
}

void QueuePairTest::post_receive_pieces(const std::vector<queue::Segment>& segments) {
  static uint64_t next_id = 1'000'000;
  queue::ReceiveRequest& request = *receives.reserve();
  request.wr_id = next_id++;
  request.segments = static_cast<uint16_t>(segments.size());
  for (size_t i = 0; i < segments.size(); ++i) {
    receives.segments(request)[i] = segments[i];
    request.length += segments[i].length;
  }
  receives.publish();
}

wire::Headers QueuePairTest::from_peer(wire::Operation operation, uint32_t psn) const {
  wire::Headers headers;
  headers.bth.opcode = wire::Opcode::make(service_of(type), operation);
  headers.bth.destination = kOurs;
  headers.bth.psn = Psn(psn);
  return headers;
}

/// By way of a real frame, as parse_frame() hands it on.
void QueuePairTest::receive(const wire::Headers& headers, const Bytes& payload) {
  wire::Path path = attributes.path;
  std::swap(path.source, path.destination);
  std::swap(path.source_mac, path.destination_mac);
  const wire::FrameTemplate frame_template(path);
  Bytes frame(kFrameBytesMax);
  std::byte* to = wire::write_headers(frame, frame_template, headers, static_cast<uint32_t>(payload.size()));
  std::copy(payload.begin(), payload.end(), to);
  frame.resize(
      wire::finish_frame(frame, frame_template, headers.bth.opcode, static_cast<uint32_t>(payload.size())));
  wire::Packet packet;
  ASSERT_EQ(wire::parse_frame(frame, packet).result, wire::ParseResult::kRoce);
  ASSERT_TRUE(wire::icrc_matches(packet));
  const Receipt receipt = show(packet);
  last_taken = receipt != Receipt::kStalled;
  last_early = receipt == Receipt::kEarly;
  // Of what comes early nothing is kept here.
  if (last_early) queue_pair->drop_out_of_order(packet, turn);
  burst.push_back(std::move(frame));
  if (commit_after_receive) {
    commit_placements(turn);
    completions.publish_all();
    burst.clear();
  }
}

/// As its poller does: what it drops while it is not in use does not begin its use.
Receipt QueuePairTest::show(const wire::Packet& packet) {
  const QueuePairStorage& lazy = queue_pair.lazy();
  const Counter reason = lazy.used() != nullptr ? Counter::kCount : lazy.reason_to_drop(packet);
  if (reason == Counter::kCount) return queue_pair->receive(packet, turn);
  counters.add(reason);
  return Receipt::kTaken;
}

void QueuePairTest::receive(wire::Operation operation, uint32_t psn, const Bytes& payload, bool ack_request) {
  wire::Headers headers = from_peer(operation, psn);
  headers.bth.ack_request = ack_request;
  receive(headers, payload);
}

void QueuePairTest::receive_ack(uint32_t psn) {
  wire::Headers headers = from_peer(wire::Operation::kAcknowledge, psn);
  headers.aeth = wire::Aeth::ack(0);
  receive(headers);
}

void QueuePairTest::receive_nak(wire::NakCode code, uint32_t psn) {
  wire::Headers headers = from_peer(wire::Operation::kAcknowledge, psn);
  headers.aeth = wire::Aeth::nak(code, 0);
  receive(headers);
}

void QueuePairTest::receive_rnr(uint8_t timer, uint32_t psn) {
  wire::Headers headers = from_peer(wire::Operation::kAcknowledge, psn);
  headers.aeth = wire::Aeth::rnr(timer, 0);
  receive(headers);
}

void QueuePairTest::receive_write(wire::Operation operation, uint32_t psn, uint64_t offset, uint32_t length,
                                  const Bytes& payload) {
  wire::Headers headers = from_peer(operation, psn);
  headers.bth.ack_request = true;
  headers.reth = {kIova + offset, keys.rkey, length};
  receive(headers, payload);
}

void QueuePairTest::receive_read(uint32_t psn, uint64_t offset, uint32_t length) {
  wire::Headers headers = from_peer(wire::Operation::kReadRequest, psn);
  headers.reth = {kIova + offset, keys.rkey, length};
  receive(headers);
}

bool QueuePairTest::pump_once(uint32_t budget) {
  const bool more = queue_pair->pump(turn, budget);
  commit_placements(turn);
  burst.clear();
  completions.publish_all();
  tx.consume(port.transmit(tx.frames()));
  return more;
}

std::vector<Sent> QueuePairTest::pump(uint32_t budget) {
  for (int turns = 0; pump_once(budget); ++turns) {
    if (turns > 100'000) {
      ADD_FAILURE() << "pumps for ever";
      break;
    }
  }
  return take_sent();
}

std::vector<Sent> QueuePairTest::take_sent() {
  std::vector<Sent> result;
  for (Bytes& frame : port.sent) {
    Sent& sent = result.emplace_back();
    sent.frame = std::move(frame);
    EXPECT_EQ(wire::parse_frame(sent.frame, sent.packet).result, wire::ParseResult::kRoce);
    EXPECT_TRUE(wire::icrc_matches(sent.packet));
    if (type != Type::kUd) {
      EXPECT_EQ(sent.packet.headers.bth.destination, kPeers);
    }
  }
  port.sent.clear();
  return result;
}

void QueuePairTest::advance(Duration time) { turn.now = turn.now + time; }

void QueuePairTest::expire() {
  ASSERT_NE(queue_pair->deadline(), kNever);
  turn.now = std::max(turn.now, queue_pair->deadline());
  queue_pair->expire(turn);
  completions.publish_all();
}

namespace {

std::vector<queue::Completion> poll_all(queue::CompletionQueue& queue) {
  std::vector<queue::Completion> result(1024);
  result.resize(queue.poll(result));
  return result;
}

}  // namespace

std::vector<queue::Completion> QueuePairTest::send_completions() { return poll_all(send_queue_completions); }
std::vector<queue::Completion> QueuePairTest::receive_completions() {
  return poll_all(receive_queue_completions);
}

Bytes QueuePairTest::memory_at(uint64_t offset, size_t length) const {
  return {memory.begin() + static_cast<ptrdiff_t>(offset),
          memory.begin() + static_cast<ptrdiff_t>(offset + length)};
}

void QueuePairTest::fill(uint64_t offset, const Bytes& bytes) {
  std::copy(bytes.begin(), bytes.end(), memory.begin() + static_cast<ptrdiff_t>(offset));
}

}  // namespace uroce::qp::testing
