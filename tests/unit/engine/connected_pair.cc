#include "connected_pair.h"

#include <sched.h>

#include "base/values/random.h"

namespace uroce::engine {

Side::Side(std::shared_ptr<Device> device, size_t buffer_bytes, queue::CompletionListener* listener)
    : device_(std::move(device)), buffer_(buffer_bytes) {
  domain_ = *device_->allocate_domain();
  completions_ = device_->create_completion_queue({.depth = 2 * kDepth, .listener = listener});
  auto queue_pair = device_->create_queue_pair({.domain = domain_,
                                                .signal_all = true,
                                                .send_depth = kDepth,
                                                .receive_depth = kDepth,
                                                .send_completions = completions_.get(),
                                                .receive_completions = completions_.get()});
  EXPECT_TRUE(queue_pair) << queue_pair.error().message;
  queue_pair_ = *queue_pair;
  keys_ =
      *device_->regions().register_user({.domain = domain_,
                                         .address = buffer_.data(),
                                         .length = buffer_.size(),
                                         .iova = address(),
                                         .access = mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead});
}

Side::~Side() {
  disconnect();
  EXPECT_TRUE(device_->regions().deregister(keys_.lkey));
  device_->retire_completion_queue(*completions_);
  device_->free_domain(domain_);
}

void Side::disconnect() {
  if (queue_pair_ != nullptr) device_->destroy_queue_pair(*queue_pair_);
  queue_pair_ = nullptr;
}

int Side::connect(const Side& peer) {
  qp::Attributes a;
  a.state = qp::State::kInit;
  a.access = mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead;
  if (const int error = device_->modify_queue_pair(
          *queue_pair_, a, qp::kMaskState | qp::kMaskPkeyIndex | qp::kMaskPort | qp::kMaskAccessFlags);
      error != 0) {
    return error;
  }
  a.state = qp::State::kRtr;
  a.path.source = device_->gids().at(1);
  a.path.destination = peer.device_->gids().at(1);
  a.path_mtu = PathMtu::k1024;
  a.destination = peer.queue_pair_->number;
  a.rq_psn = Psn(peer.queue_pair_->number.value);
  a.max_dest_rd_atomic = 4;
  a.min_rnr_timer = 1;
  if (const int error =
          device_->modify_queue_pair(*queue_pair_, a,
                                     qp::kMaskState | qp::kMaskAv | qp::kMaskPathMtu | qp::kMaskDestQpn |
                                         qp::kMaskRqPsn | qp::kMaskMaxDestRdAtomic | qp::kMaskMinRnrTimer);
      error != 0) {
    return error;
  }
  a.state = qp::State::kRts;
  a.sq_psn = Psn(queue_pair_->number.value);
  a.timeout = 14;
  a.retry_count = 7;
  a.rnr_retry = 7;
  a.max_rd_atomic = 4;
  return device_->modify_queue_pair(*queue_pair_, a,
                                    qp::kMaskState | qp::kMaskSqPsn | qp::kMaskTimeout | qp::kMaskRetryCount |
                                        qp::kMaskRnrRetry | qp::kMaskMaxRdAtomic);
}

void Side::post(const std::vector<Message>& messages, uint64_t first_id) {
  queue::SendQueue& queue = queue_pair_->send_queue;
  for (const Message& message : messages) {
    queue::SendRequest* request = queue.reserve();
    ASSERT_NE(request, nullptr);
    request->wr_id = first_id++;
    request->operation = message.operation;
    request->length = message.local.length;
    request->remote_address = message.remote;
    request->rkey = message.rkey;
    request->segments = 1;
    request->signaled = true;
    queue.segments(*request)[0] = message.local;
  }
  queue.publish();
  device_->ring_doorbell(*queue_pair_);
}

void Side::receive(const std::vector<queue::Segment>& segments, uint64_t first_id) {
  queue::ReceiveQueue& queue = queue_pair_->receive_queue;
  for (const queue::Segment& segment : segments) {
    queue::ReceiveRequest* request = queue.reserve();
    ASSERT_NE(request, nullptr);
    request->wr_id = first_id++;
    request->length = segment.length;
    request->segments = 1;
    queue.segments(*request)[0] = segment;
  }
  queue.publish();
  if (queue_pair_->in_error.load()) device_->ring_doorbell(*queue_pair_);
}

void Side::post_write(const Side& peer, uint32_t length, uint64_t wr_id) {
  post({{queue::SendOperation::kWrite, {address(), length, keys_.lkey}, peer.address(), peer.rkey()}}, wr_id);
}

void Side::post_send(uint32_t length, uint64_t wr_id) {
  post({{queue::SendOperation::kSend, {address(), length, keys_.lkey}}}, wr_id);
}

void Side::post_receive(uint32_t length, uint64_t wr_id) {
  receive({{address(), length, keys_.lkey}}, wr_id);
}

queue::Completion Side::wait() {
  for (;;) {
    if (const auto completion = poll()) return *completion;
  }
}

std::optional<queue::Completion> Side::poll() {
  if (const auto completion = look()) return completion;
  device_->turn_for(*completions_);
  return look();
}

std::optional<queue::Completion> Side::look() {
  queue::Completion completion;
  if (completions_->poll({&completion, 1}) == 0) return std::nullopt;
  return completion;
}

int connect_pair(Side& one, Side& other) {
  const int error = one.connect(other);
  return error != 0 ? error : other.connect(one);
}

int reconnect_pair(Side& one, Side& other) {
  qp::Attributes reset;
  reset.state = qp::State::kReset;
  for (const Side* side : {&one, &other}) {
    const int error = side->device().modify_queue_pair(side->queue_pair(), reset, qp::kMaskState);
    if (error != 0) return error;
  }
  return connect_pair(one, other);
}

void expect_a_write(const std::shared_ptr<Device>& from, const std::shared_ptr<Device>& to, uint32_t bytes) {
  Side left(from, bytes);
  Side right(to, bytes);
  ASSERT_EQ(connect_pair(left, right), 0);
  fill(left.buffer(), 1);
  left.post_write(right, bytes);
  EXPECT_EQ(left.wait().status, queue::CompletionStatus::kSuccess);
  EXPECT_EQ(left.buffer(), right.buffer());
}

void fill(std::vector<std::byte>& buffer, uint64_t seed) {
  Random random(seed);
  for (std::byte& byte : buffer) byte = static_cast<std::byte>(random.next());
}

}  // namespace uroce::engine
