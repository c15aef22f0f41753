#include "apps/perf/load/load_end.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "apps/perf/ends/objects.h"
#include "client/failure.h"

namespace uroce::perf {
namespace {

/// What is late may be sent for so long behind the measured time; more late than that, and it is not sent.
constexpr int64_t kGraceNs = 50'000'000;

constexpr uint32_t kReceiveDepthMax = 512;

bool has_receives(Service service, const Load& load) {
  return !is_reliable(service) || std::ranges::any_of(load.mix, [](const MixPart& part) {
    return part.operation == Operation::kSend;
  });
}

}  // namespace

LoadEnd::LoadEnd(client::VerbsDevice& device, const Plan& plan, const Load& load)
    : device_(device),
      service_(plan.service),
      load_(load),
      has_atomics_(
          std::ranges::any_of(load.mix, [](const MixPart& part) { return is_atomic(part.operation); })),
      has_receives_(perf::has_receives(plan.service, load)),
      batch_(1),
      receive_depth_(has_receives_ ? std::clamp(2 * load.depth, 2 * kBatchMax, kReceiveDepthMax) : 1),
      domain_(domain_on(device)),
      memory_(device, domain_.get(), plan, load, receive_depth_),
      flows_(load.queue_pairs),
      outstanding_(size_t{load.queue_pairs} * load.depth),
      room_(outstanding_.size()) {
  expect_room(device_, std::max(load.depth, receive_depth_));
  if (has_atomics_ && !device_.has_atomics()) throw client::Failure(device_.name + " has no atomics");
  completions_ =
      completions_on(device_, load.queue_pairs * (load.depth + (has_receives_ ? receive_depth_ : 0)));
  connections_.reserve(load.queue_pairs);
  for (uint32_t i = 0; i < load.queue_pairs; ++i)
    connections_.emplace_back(device_, plan,
                              Connection::Queues{.domain = domain_.get(),
                                                 .completions = completions_.get(),
                                                 .send_depth = load.depth,
                                                 .receive_depth = receive_depth_});
}

std::vector<Address> LoadEnd::addresses() const {
  std::vector<Address> all;
  for (const Connection& connection : connections_) {
    all.push_back(connection.address());
    memory_.tell(all.back());
  }
  return all;
}

void LoadEnd::connect(std::span<const Address> peers) {
  if (peers.size() != connections_.size())
    throw client::Failure(
        fmt::format("the peer has {} queue pairs for {}", peers.size(), connections_.size()));
  const uint64_t size = std::ranges::max_element(load_.mix, {}, &MixPart::size)->size;
  for (size_t i = 0; i < peers.size(); ++i) {
    connections_[i].connect(peers[i], size);
    if (has_receives_)
      for (uint32_t posted = 0; posted < receive_depth_; posted += kBatchMax)
        post_receives(static_cast<uint32_t>(i), std::min(kBatchMax, receive_depth_ - posted));
  }
}

void LoadEnd::begin(const LoadRun& run) {
  run_ = run;
  memory_.prepare();
  counts_ = {};
  claims_ = {};
  counts_.parts.resize(load_.mix.size());
  order_ = shuffled(load_.mix, run.seed);
  next_in_order_ = 0;
  begin_ = run.warm_up.count();
  end_ = begin_ + run.measured.count();
  schedule_.reset();
  if (run.rate > 0) schedule_.emplace(run);
  // What has a rate goes one by one when it is due.
  batch_ = schedule_ ? 1 : std::clamp(load_.depth / 4, 1u, kBatchMax);
  room_taken_ = room_given_ = 0;
  for (uint32_t i = 0; i < load_.depth / batch_; ++i)
    for (uint32_t flow = 0; flow < load_.queue_pairs; ++flow) room_[room_given_++] = flow;
  for (Flow& flow : flows_) flow = {.receives_used = flow.receives_used};
  sending_ = run.sends;
  // Relaxed: the thread that turns this begins afterwards.
  sent_.store(0, std::memory_order_relaxed);
  received_.store(0, std::memory_order_relaxed);
  drained_.store(!sending_, std::memory_order_relaxed);
}

void LoadEnd::turn() {
  poll();
  if (!sending_) return;
  const int64_t at = now();
  if (at < 0) return;
  if (schedule_) {
    send_due(at);
  } else {
    send_all(at);
  }
  look_whether_drained();
}

void LoadEnd::poll() {
  std::array<ibv_wc, kBatchMax> found;
  const int count = ibv_poll_cq(completions_.get(), static_cast<int>(found.size()), found.data());
  if (count < 0) throw client::Failure("ibv_poll_cq failed on " + device_.name);
  if (count == 0) return;
  const int64_t at = now();
  uint64_t received = 0;
  for (int i = 0; i < count; ++i) {
    const ibv_wc& one = found[static_cast<size_t>(i)];
    const auto flow = static_cast<uint32_t>(one.wr_id);
    if (one.status != IBV_WC_SUCCESS)
      throw connections_[flow].failure_of(fmt::format("queue pair {}", one.qp_num), one);
    if ((one.wr_id & kReceiveMark) != 0) {
      ++received;
      if (++flows_[flow].receives_used == kBatchMax) {
        flows_[flow].receives_used = 0;
        post_receives(flow, kBatchMax);
      }
    } else {
      completed(flow, static_cast<uint32_t>(one.wr_id >> 32), at);
    }
  }
  // Relaxed: numbers alone; what they count is looked at when no thread turns this.
  if (received != 0)
    received_.store(received_.load(std::memory_order_relaxed) + received, std::memory_order_relaxed);
  look_whether_drained();
}

void LoadEnd::completed(uint32_t flow, uint32_t count, int64_t now) {
  Flow& its = flows_[flow];
  for (uint32_t i = 0; i < count; ++i)
    note(outstanding_[size_t{flow} * load_.depth + its.completed++ % load_.depth], now);
  room_[room_given_++ % room_.size()] = flow;
}

void LoadEnd::note(const Outstanding& message, int64_t now) {
  const auto latency = static_cast<uint64_t>(now - message.intended);
  if (measured(schedule_ ? message.intended : now)) {
    LoadCounts::Part& part = counts_.parts[message.part];
    ++part.messages;
    part.latency.record(latency);
  }
  if (!measured(now)) return;
  const int64_t slice = (now - begin_) * static_cast<int64_t>(LoadCounts::kSlices) / (end_ - begin_);
  LoadCounts::Slice& its = counts_.slices[static_cast<size_t>(slice)];
  ++its.messages;
  its.bytes += load_.mix[message.part].size;
  its.latency.record(latency);
}

void LoadEnd::send_due(int64_t now) {
  while (schedule_->next() <= now && schedule_->next() < end_ && room_taken_ != room_given_ &&
         now < end_ + kGraceNs) {
    const int64_t intended = schedule_->next();
    post(room_[room_taken_++ % room_.size()], 1, intended);
    if (measured(intended)) {
      ++counts_.intended;
      counts_.seconds = static_cast<double>(std::max(now, end_) - begin_) / 1e9;
    }
    schedule_->advance();
    // A post takes its time, and with it the next one may be due.
    now = this->now();
  }
  if (schedule_->next() < end_ && now < end_ + kGraceNs) return;
  sending_ = false;
  // What there was no room for in all that time.
  for (; schedule_->next() < end_; schedule_->advance()) {
    if (!measured(schedule_->next())) continue;
    ++counts_.intended;
    counts_.seconds = static_cast<double>(end_ + kGraceNs - begin_) / 1e9;
  }
}

void LoadEnd::send_all(int64_t now) {
  counts_.seconds = static_cast<double>(end_ - begin_) / 1e9;
  if (now >= end_) {
    sending_ = false;
    return;
  }
  while (room_taken_ != room_given_) {
    post(room_[room_taken_++ % room_.size()], batch_, now);
    now = this->now();
  }
}

void LoadEnd::look_whether_drained() {
  const bool all_back = room_given_ - room_taken_ == size_t{load_.queue_pairs} * (load_.depth / batch_);
  // Release: pairs with drained(); what was counted is there for the thread that sees this.
  if (!sending_ && all_back && !drained_.load(std::memory_order_relaxed))
    drained_.store(true, std::memory_order_release);
}

void LoadEnd::post(uint32_t flow, uint32_t count, int64_t intended) {
  std::array<ibv_send_wr, kBatchMax> requests;
  std::array<ibv_sge, kBatchMax> segments;
  Flow& its = flows_[flow];
  for (uint32_t i = 0; i < count; ++i) {
    const uint8_t part = order_[next_in_order_];
    next_in_order_ = next_in_order_ + 1 == order_.size() ? 0 : next_in_order_ + 1;
    outstanding_[size_t{flow} * load_.depth + its.posted++ % load_.depth] = {.intended = intended,
                                                                             .part = part};
    fill(requests[i], segments[i], flow, load_.mix[part]);
    requests[i].next = i + 1 < count ? &requests[i + 1] : nullptr;
    requests[i].send_flags = i + 1 < count ? 0 : IBV_SEND_SIGNALED;
    requests[i].wr_id = uint64_t{count} << 32 | flow;
  }
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(connections_[flow].queue_pair(), requests.data(), &bad))
    throw client::failed("ibv_post_send on " + device_.name, error);
}

void LoadEnd::fill(ibv_send_wr& request, ibv_sge& segment, uint32_t flow, const MixPart& part) {
  const Connection& connection = connections_[flow];
  // Relaxed: written by this thread alone.
  const uint64_t number = sent_.load(std::memory_order_relaxed);
  sent_.store(number + 1, std::memory_order_relaxed);
  const bool read = part.operation == Operation::kRead;
  if (part.operation == Operation::kSend || !is_reliable(service_)) ++claims_.receives;
  segment = {.addr = read ? memory_.target(number) : memory_.source(number),
             .length = static_cast<uint32_t>(part.size),
             .lkey = memory_.key()};
  request.sg_list = &segment;
  request.num_sge = 1;
  request.opcode = opcode_of(service_, part.operation);
  request.imm_data = htonl(static_cast<uint32_t>(number));
  if (is_atomic(part.operation)) {
    segment.addr = memory_.fetched(flow);
    request.wr.atomic = {.remote_addr = memory_.counter(flow, connection.peer()),
                         .compare_add = part.operation == Operation::kFetchAdd ? 1 : flows_[flow].atomics,
                         .swap = flows_[flow].atomics + 1,
                         .rkey = connection.peer().remote_key};
    ++flows_[flow].atomics;
    ++claims_.atomics;
  } else if (service_ == Service::kUd) {
    connection.aim(request);
  } else {
    request.wr.rdma = {.remote_addr = read ? memory_.source(number, connection.peer())
                                           : memory_.target(number, connection.peer()),
                       .rkey = connection.peer().remote_key};
  }
}

void LoadEnd::post_receives(uint32_t flow, uint32_t count) {
  std::array<ibv_sge, kBatchMax> segments;
  const uint32_t header = service_ == Service::kUd ? kDatagramHeader : 0;
  const uint64_t size = std::ranges::max_element(load_.mix, {}, &MixPart::size)->size;
  for (uint32_t i = 0; i < count; ++i)
    segments[i] = {.addr = memory_.receive(receives_posted_++) - header,
                   .length = static_cast<uint32_t>(size) + header,
                   .lkey = memory_.key()};
  connections_[flow].post_receives(flow, std::span(segments).first(count));
}

LoadClaims LoadEnd::claims() const { return claims_; }

LoadCounts LoadEnd::finish(uint64_t atomics) {
  counts_.sent = sent();
  counts_.received = received();
  counts_.bytes_verified = memory_.verify(atomics);
  return counts_;
}

}  // namespace uroce::perf
