#include "stream_target.h"

#include <algorithm>
#include <stdexcept>

#include "allocations.h"
#include "qp/attributes/datagram_address.h"

namespace uroce::fuzz {

using queue::CompletionStatus;

namespace {

constexpr std::byte kUntouched{0xA5};
constexpr DomainId kDomain{1};
constexpr QpNumber kOurs{0x11};
constexpr QpNumber kPeers{0x22};
constexpr uint32_t kQkey = 0x11111111;
constexpr uint32_t kPumpFrames = 16;
// A window of requests, and the longest responses to all READs that are kept, twice.
constexpr uint32_t kPumpsMax =
    2 * (256 + 16 * (StreamTarget::kTargetBytes / StreamTarget::kMtu)) / (kPumpFrames / 2);

constexpr queue::XrcDomainId kXrcDomain{1};

/// Of what goes with each request.
uint32_t attachment_bytes(qp::Type type) {
  if (type == qp::Type::kUd) return sizeof(qp::DatagramAddress);
  return type == qp::Type::kXrcSend ? uint32_t{sizeof(queue::SrqNumber)} : 0;
}

/// A target of XRC has of its own only what the queues have that messages name.
qp::QueuePairOptions only_target(qp::QueuePairOptions options) {
  if (options.type != qp::Type::kXrcReceive) return options;
  options.domain = {};
  options.shared_receives = nullptr;
  options.send_completions = options.receive_completions = nullptr;
  options.xrc_domain = kXrcDomain;
  return options;
}

wire::Path path_to_peer() {
  wire::Path path;
  path.source_mac = {{2, 0, 0, 0, 0, 1}};
  path.destination_mac = {{2, 0, 0, 0, 0, 2}};
  path.source = Gid::from_ipv4({10, 0, 0, 1});
  path.destination = Gid::from_ipv4({10, 0, 0, 2});
  return path;
}

}  // namespace

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

Pool::Pool(Observer observer)
    : observer_(std::move(observer)), memory_(port::TxBatch::kFramesMax * kFrameBytes) {
  for (size_t i = 0; i < port::TxBatch::kFramesMax; ++i) free_.push_back(memory_.data() + i * kFrameBytes);
}

uint16_t Pool::allocate(std::span<port::TxFrame> frames) {
  uint16_t count = 0;
  for (; count < frames.size() && !free_.empty(); ++count, free_.pop_back())
    frames[count] = {.data = free_.back(), .capacity = kFrameBytes};
  return count;
}

uint16_t Pool::transmit(std::span<const port::TxFrame> frames) {
  for (const port::TxFrame& frame : frames) {
    if (observer_) observer_({frame.data, frame.length});
  }
  free(frames);
  return static_cast<uint16_t>(frames.size());
}

void Pool::free(std::span<const port::TxFrame> frames) {
  for (const port::TxFrame& frame : frames) free_.push_back(frame.data);
}

StreamTarget::StreamTarget(const Options& wanted, Observer observer)
    : options(wanted),
      path(path_to_peer()),
      memory_(kMemory, kUntouched),
      keys(regions_, bus_, kDomain),
      sends_({.depth = kDepth,
              .segments_max = 1,
              .inline_max = 64,
              .attachment_bytes = attachment_bytes(wanted.type)}),
      shared_({.depth = kDepth,
               .segments_max = 1,
               .domain = kDomain,
               .xrc = {.xrc_domain = kXrcDomain,
                       .number = receives_number = *shared_table_.allocate({}),
                       .completions = &receive_completions_}}),
      port_(std::move(observer)),
      turn_{Instant{1'000'000}, tx_, placer_, completions_, regions_, counters_},
      transport_{.credits = wanted.credits, .xrc_receives = &shared_table_},
      queue_pair_(only_target({.transport = &transport_,
                               .type = wanted.type,
                               .number = kOurs,
                               .domain = kDomain,
                               .signal_all = wanted.signal_all,
                               .datagram_mtu = 1024,
                               .send_queue = &sends_,
                               .receive_queue = &receives_,
                               .shared_receives = wanted.shared_receives ? &shared_ : nullptr,
                               .send_completions = &send_completions_,
                               .receive_completions = &receive_completions_})) {
  shared_table_.publish(receives_number, shared_);
  const auto enter = [&](size_t at, size_t bytes, uint64_t iova, mem::Access access) {
    return regions_
        .register_user({.domain = kDomain,
                        .address = memory_.data() + at,
                        .length = bytes,
                        .iova = iova,
                        .access = access})
        .value();
  };
  receives_key_ = enter(kReceivesAt, kDepth * kReceiveBytes, 0, mem::kLocalWrite);
  target =
      enter(kTargetAt, kTargetBytes, kTargetIova,
            mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead | mem::kRemoteAtomic | mem::kFlushGlobal);
  source = enter(kSourceAt, kSourceBytes, kSourceIova, mem::kRemoteRead);
  attributes_.access = mem::kRemoteWrite | mem::kRemoteRead | mem::kRemoteAtomic | mem::kFlushGlobal;
  attributes_.path = path;
  attributes_.path_mtu = PathMtu::k256;
  attributes_.destination = kPeers;
  attributes_.qkey = kQkey;
  attributes_.timeout = 8;
  attributes_.retry_count = 3;
  attributes_.rnr_retry = 3;
  attributes_.min_rnr_timer = 1;
  attributes_.max_rd_atomic = 3;
  attributes_.max_dest_rd_atomic = 4;
  restart();
}

void StreamTarget::step(qp::State state, qp::AttributeMask mask) {
  end_burst();
  attributes_.state = state;
  require(queue_pair_.modify(attributes_, mask | qp::kMaskState, turn_) == 0,
          "a step between states is legal");
  publish();
}

void StreamTarget::restart() {
  using namespace qp;
  attributes_.rq_psn = first_expected;
  attributes_.sq_psn = first_sent;
  step(State::kReset, {});
  // What a shared queue holds stays.
  sends_completed_ = sends_posted_;
  if (!has_shared_receives()) receives_completed_ = receives_posted_;
  sends_failed_ = receives_failed_ = false;
  const bool datagrams = options.type == Type::kUd;
  const bool requester = options.type == Type::kRc || options.type == Type::kXrcSend;
  const bool responder = options.type == Type::kRc || options.type == Type::kXrcReceive;
  step(State::kInit, kMaskPkeyIndex | kMaskPort | (datagrams ? kMaskQkey : kMaskAccessFlags));
  step(State::kRtr, (datagrams ? AttributeMask{} : kMaskAv | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn) |
                        (responder ? kMaskMaxDestRdAtomic | kMaskMinRnrTimer : AttributeMask{}));
  step(State::kRts, kMaskSqPsn | (requester || responder ? kMaskTimeout : AttributeMask{}) |
                        (requester ? kMaskRetryCount | kMaskRnrRetry | kMaskMaxRdAtomic : AttributeMask{}));
}

void StreamTarget::fail() {
  step(qp::State::kErr, {});
  pump();
  check_order_of_sends(sends_posted_);
  require(has_shared_receives() || receives_completed_ == receives_posted_, "every receive completes");
}

void StreamTarget::drain() {
  end_burst();
  if (state() == qp::State::kRts) {
    step(qp::State::kSqd, {});
  } else if (state() == qp::State::kSqd || state() == qp::State::kSqe) {
    step(qp::State::kRts, {});
    sends_failed_ = false;
  }
}

bool StreamTarget::post(const queue::SendRequest& wanted, Data data, uint32_t offset) {
  queue::SendRequest* const slot = sends_.reserve();
  if (slot == nullptr) return false;
  *slot = wanted;
  signaled_.push_back(wanted.signaled || options.signal_all);
  slot->wr_id = sends_posted_++;
  slot->segments = 1;
  const uint64_t iova = data == Data::kSource   ? kSourceIova
                        : data == Data::kTarget ? kTargetIova
                                                : StreamKeys::kIova;
  const MemoryKey lkey = data == Data::kSource   ? source.lkey
                         : data == Data::kTarget ? target.lkey
                                                 : keys.key(StreamKeys::Kind::kGone);
  sends_.segments(*slot)[0] = {iova + offset, slot->length, lkey};
  if (queue::is_atomic(slot->operation)) sends_.operands(*slot) = {1, 2};
  if (slot->operation == queue::SendOperation::kFlush)
    sends_.set_operation(*slot, queue::FlushOperation{.global_visibility = true});
  if (options.type == qp::Type::kUd)
    sends_.attach(
        *slot, qp::DatagramAddress{.frame = wire::FrameTemplate(path), .destination = kPeers, .qkey = kQkey});
  if (options.type == qp::Type::kXrcSend) sends_.attach(*slot, receives_number);
  sends_.publish();
  return true;
}

bool StreamTarget::post_local(queue::SendOperation operation, StreamKeys::Kind kind, uint8_t low) {
  queue::SendRequest* const slot = sends_.reserve();
  if (slot == nullptr) return false;
  *slot = {};
  slot->operation = operation;
  slot->signaled = true;
  if (!keys.prepare(operation, kind, low, sends_, *slot)) {
    sends_.cancel();
    return false;
  }
  signaled_.push_back(true);
  slot->wr_id = sends_posted_++;
  sends_.publish();
  return true;
}

bool StreamTarget::post_receive(uint32_t bytes) {
  queue::ReceiveRequest* const slot = has_shared_receives() ? shared_.reserve() : receives_.reserve();
  if (slot == nullptr) return false;
  const uint64_t number = receives_posted_++;
  bytes = std::min<uint32_t>(bytes, kReceiveBytes);
  *slot = {.wr_id = number, .length = bytes, .segments = 1};
  receive_bytes_[number % receive_bytes_.size()] = bytes;
  queue::Segment* const segments =
      has_shared_receives() ? shared_.segments(*slot) : receives_.segments(*slot);
  segments[0] = {number % kDepth * kReceiveBytes, bytes, receives_key_.lkey};
  if (has_shared_receives()) {
    shared_.publish(*slot);
  } else {
    receives_.publish();
  }
  return true;
}

template <typename Act>
void StreamTarget::without_allocation(const Act& act) {
  const uint64_t before = allocations();
  act();
  require(allocations() == before, "nothing is allocated for a packet");
}

/// It is not kept, or, which only a response makes a difference to, is the first of those that are.
void StreamTarget::take_early(const wire::Packet& packet) {
  const bool response = packet.row->response;
  const Psn psn = packet.headers.bth.psn;
  require(psn.after(response ? queue_pair_.due_response() : queue_pair_.due_request()), "early is ahead");
  if (response && psn.value() % 2 == 0)
    require(!queue_pair_.reach_response(psn, turn_), "it would not have been early");
  else
    queue_pair_.drop_out_of_order(packet, turn_);
}

void StreamTarget::show(const wire::Packet& packet) {
  without_allocation([&] {
    const qp::Receipt receipt = queue_pair_.receive(packet, turn_);
    require((receipt == qp::Receipt::kStalled) == (receipt != qp::Receipt::kTaken && queue_pair_.stalled()),
            "a queue pair that is not stalled takes every packet, but for one that came early");
    if (receipt == qp::Receipt::kEarly) take_early(packet);
  });
  if (++burst_ == kBurstMax || !placer_.losses().empty()) end_burst();
}

void StreamTarget::end_burst() {
  burst_ = 0;
  without_allocation([&] { qp::commit_placements(turn_); });
  publish();
}

void StreamTarget::pump() {
  end_burst();
  bool more = true;
  for (uint32_t pumps = 0; more; ++pumps) {
    require(pumps < kPumpsMax, "what there is to send has an end");
    if (pumps == 2) other_poller_.end_turn();
    without_allocation([&] {
      const size_t before = tx_.size();
      const bool has_work = queue_pair_.has_work();
      const Instant deadline = queue_pair_.deadline();
      more = queue_pair_.pump(turn_, kPumpFrames);
      require(tx_.size() - before <= kPumpFrames, "a pump keeps to its budget");
      const bool idle =
          !more && tx_.size() == before && completions_.empty() && queue_pair_.deadline() == deadline;
      require(has_work || idle, "a queue pair without work need not be pumped");
      qp::commit_placements(turn_);
    });
    publish();
    tx_.consume(port_.transmit(tx_.frames()));
  }
}

void StreamTarget::advance(Duration by) {
  end_burst();
  turn_.now = turn_.now + by;
  if (queue_pair_.deadline() > turn_.now) return;
  without_allocation([&] { queue_pair_.expire(turn_); });
  publish();
}

void StreamTarget::publish() {
  completions_.publish_all();
  check_completions();
}

/// Those before it that have not completed and never will asked for no completion.
void StreamTarget::check_order_of_sends(uint64_t number) {
  require(number >= sends_completed_, "sends complete once and in order");
  for (uint64_t skipped = sends_completed_; skipped < number; ++skipped)
    require(!signaled_[skipped], "a signaled send completes");
}

void StreamTarget::check_completions() {
  std::array<queue::Completion, 2 * kDepth> found;
  for (const queue::Completion& completion : std::span(found).first(send_completions_.poll(found))) {
    check_order_of_sends(completion.wr_id);
    sends_completed_ = completion.wr_id + 1;
    require(completion.wr_id < sends_posted_, "what completes was posted");
    require(!sends_failed_ || completion.status == CompletionStatus::kFlushed,
            "behind a failed send all are flushed");
    const bool success = completion.status == CompletionStatus::kSuccess;
    sends_failed_ |= !success;
    sends_successful_ += success ? 1 : 0;
  }
  for (const queue::Completion& completion : std::span(found).first(receive_completions_.poll(found))) {
    // One of a shared queue that was taken when the queue pair began anew is gone without a word.
    const uint64_t skipped = completion.wr_id - receives_completed_;
    require(skipped == 0 || (has_shared_receives() && completion.wr_id > receives_completed_),
            "receives complete once and in order");
    receives_completed_ = completion.wr_id + 1;
    require(completion.wr_id < receives_posted_, "what completes was posted");
    require(!receives_failed_ || completion.status == CompletionStatus::kFlushed,
            "behind a failed receive all are flushed");
    const bool success = completion.status == CompletionStatus::kSuccess;
    receives_failed_ |= !success;
    receives_successful_ += success ? 1 : 0;
    require(!success || completion.opcode != queue::CompletionOpcode::kReceive ||
                completion.bytes <= receive_bytes_[completion.wr_id % receive_bytes_.size()],
            "nothing longer than its receive is received");
  }
}

void StreamTarget::check_untouched(size_t begin, size_t bytes) const {
  const auto from = memory_.begin() + static_cast<ptrdiff_t>(begin);
  require(
      std::all_of(from, from + static_cast<ptrdiff_t>(bytes), [](std::byte b) { return b == kUntouched; }),
      "memory that no peer may write to is untouched");
}

void StreamTarget::finish() {
  pump();
  if (state() != qp::State::kErr) fail();
  check_untouched(0, kGuard);
  check_untouched(kTargetAt - kGuard, kGuard);
  check_untouched(kSourceAt - kGuard, kMemory - kSourceAt + kGuard);
}

Depth StreamTarget::depth() const {
  Depth depth{.sends = sends_successful_, .receives = receives_successful_};
  for (size_t i = 0; i < kCounterCount; ++i) depth.counters[i] = counters_.read(static_cast<Counter>(i));
  return depth;
}

}  // namespace uroce::fuzz
