#include "apps/perf/ends/endpoint.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>

#include "apps/perf/ends/objects.h"

namespace uroce::perf {

Endpoint::Endpoint(const client::DeviceChoice& choice, const Plan& plan)
    : device_(client::VerbsDevice::open(choice)),
      plan_(plan),
      service_(plan.service),
      send_depth_(plan.depth),
      receive_depth_(std::max(2 * plan.depth, 2 * kBatchMax)),
      area_bytes_(area_bytes_for(plan)),
      buffer_(zeroed(2 * area_bytes_)) {
  expect_room(device_, send_depth_);
  receive_depth_ = std::min(receive_depth_, static_cast<uint32_t>(device_.limits.max_qp_wr));
  domain_ = domain_on(device_);
  region_ = region_on(device_, domain_.get(), buffer_, 2 * area_bytes_);
  completions_ = completions_on(device_, send_depth_ + receive_depth_);
}

void Endpoint::begin_round(const Layout& layout) {
  connection_.reset();
  forget_completions();
  layout_ = layout;
  connection_.emplace(device_, plan_,
                      Connection::Queues{.domain = domain_.get(),
                                         .completions = completions_.get(),
                                         .send_depth = send_depth_,
                                         .receive_depth = receive_depth_});
}

/// A device may leave what a queue pair has completed in the queue when that is destroyed. A message that
/// came late is of no later round.
void Endpoint::forget_completions() {
  ibv_wc completion;
  while (ibv_poll_cq(completions_.get(), 1, &completion) > 0) {
  }
}

Address Endpoint::address() const {
  Address address = connection_->address();
  address.remote_key = region_->rkey;
  address.source = reinterpret_cast<uint64_t>(buffer_.get());
  address.target = reinterpret_cast<uint64_t>(buffer_.get() + area_bytes_);
  return address;
}

void Endpoint::connect(const Address& peer) { connection_->connect(peer, layout_.size); }

void Endpoint::post(Operation operation, uint64_t first, uint32_t count) {
  std::array<ibv_send_wr, kBatchMax> requests;
  std::array<ibv_sge, kBatchMax> segments;
  const bool fetches = operation == Operation::kRead || is_atomic(operation);
  const uint64_t local = reinterpret_cast<uint64_t>(buffer_.get()) + (fetches ? area_bytes_ : 0);
  const uint64_t remote = fetches ? connection_->peer().source : connection_->peer().target;
  const ibv_wr_opcode opcode = opcode_of(service_, operation);
  last_operation_ = operation;
  Offsets offsets(layout_, first);
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t offset = offsets.next();
    segments[i] = {
        .addr = local + offset, .length = static_cast<uint32_t>(layout_.size), .lkey = region_->lkey};
    ibv_send_wr& request = requests[i];
    request.wr_id = count;
    request.next = i + 1 < count ? &requests[i + 1] : nullptr;
    request.sg_list = &segments[i];
    request.num_sge = 1;
    request.opcode = opcode;
    if (!is_reliable(service_)) request.imm_data = htonl(static_cast<uint32_t>(first + i));
    request.send_flags = i + 1 < count ? 0 : IBV_SEND_SIGNALED;
    if (is_atomic(operation)) {
      const bool swap = operation == Operation::kCompareSwap;
      request.wr.atomic.remote_addr = remote + offset;
      request.wr.atomic.rkey = connection_->peer().remote_key;
      request.wr.atomic.compare_add = swap ? first + i : layout_.slots;
      request.wr.atomic.swap = first + i + layout_.slots;
    } else if (service_ == Service::kUd) {
      connection_->aim(request);
    } else {
      request.wr.rdma.remote_addr = remote + offset;
      request.wr.rdma.rkey = connection_->peer().remote_key;
    }
  }
  post_list(requests.data(), operation);
}

void Endpoint::post_number(uint64_t number) {
  ibv_send_wr request{};
  request.wr_id = 1;
  request.opcode = IBV_WR_SEND_WITH_IMM;
  request.send_flags = IBV_SEND_SIGNALED;
  request.imm_data = htonl(static_cast<uint32_t>(number));
  if (service_ == Service::kUd) connection_->aim(request);
  last_operation_ = Operation::kSend;
  post_list(&request, Operation::kSend);
}

void Endpoint::post_list(ibv_send_wr* requests, Operation operation) {
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(connection_->queue_pair(), requests, &bad)) {
    throw client::failed(fmt::format("ibv_post_send of a {} of {} on {}", name_of(operation),
                                     size_text(layout_.size), device_.name),
                         error);
  }
}

void Endpoint::post_receives(uint64_t first, uint32_t count) {
  std::array<ibv_sge, kBatchMax> segments;
  const uint64_t local = reinterpret_cast<uint64_t>(buffer_.get()) + area_bytes_;
  const uint32_t header = service_ == Service::kUd ? kDatagramHeader : 0;
  Offsets offsets(layout_, first);
  for (uint32_t i = 0; i < count; ++i)
    segments[i] = {.addr = local + offsets.next() - header,
                   .length = static_cast<uint32_t>(layout_.size) + header,
                   .lkey = region_->lkey};
  connection_->post_receives(0, std::span(segments).first(count));
}

Completions Endpoint::poll() {
  std::array<ibv_wc, Completions::kMax> found;
  const int count = ibv_poll_cq(completions_.get(), static_cast<int>(found.size()), found.data());
  if (count < 0) throw client::Failure("ibv_poll_cq on " + device_.name + " failed");
  Completions completions;
  for (int i = 0; i < count; ++i) {
    const ibv_wc& completion = found[static_cast<size_t>(i)];
    const bool receive = (completion.wr_id & kReceiveMark) != 0;
    if (completion.status != IBV_WC_SUCCESS)
      throw connection_->failure_of(
          fmt::format("{} of {}", receive ? "receive" : name_of(last_operation_), size_text(layout_.size)),
          completion);
    if (!receive) {
      completions.sent += completion.wr_id;
    } else {
      note_arrival(completion, completions);
    }
  }
  return completions;
}

void Endpoint::note_arrival(const ibv_wc& completion, Completions& completions) const {
  const uint32_t header = service_ == Service::kUd ? kDatagramHeader : 0;
  const uint32_t bytes = completion.byte_len - header;
  const bool reliable = is_reliable(service_);
  const bool empty = !reliable && bytes == 0;
  if (bytes != layout_.size && !empty)
    throw client::Failure(
        fmt::format("a message of {} arrived with {} bytes", size_text(layout_.size), bytes));
  if (!reliable)
    completions.arrivals[completions.received] = {.number = ntohl(completion.imm_data), .empty = empty};
  ++completions.received;
}

}  // namespace uroce::perf
