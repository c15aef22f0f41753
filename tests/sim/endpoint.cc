#include "tests/sim/endpoint.h"

#include <stdexcept>

namespace uroce::sim {

namespace {

constexpr mem::Access kAccess = mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead | mem::kRemoteAtomic;

template <typename Value>
Value expect(Result<Value> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return *std::move(result);
}

}  // namespace

Endpoint::Endpoint(Host& where, const Options& options, Random& random)
    : host(where),
      domain(expect(where.device().allocate_domain())),
      arena(where.device().regions(), domain, options.iova, random, options.arena_bytes),
      signal_all(options.signal_all),
      type(options.type),
      send_completions_(where.device().create_completion_queue({.depth = options.depth})),
      receive_completions_(where.device().create_completion_queue({.depth = options.depth})) {
  queue_pair_ = expect(where.device().create_queue_pair({.type = options.type,
                                                         .domain = domain,
                                                         .signal_all = options.signal_all,
                                                         .send_depth = options.depth,
                                                         .receive_depth = options.depth,
                                                         .send_segments = kSegments,
                                                         .receive_segments = kSegments,
                                                         .inline_bytes = kInlineBytes,
                                                         .send_completions = send_completions_.get(),
                                                         .receive_completions = receive_completions_.get()}));
  host.watch(arena.memory());
}

std::string Endpoint::close() {
  if (queue_pair_ == nullptr) return {};
  engine::Device& device = host.device();
  device.destroy_queue_pair(*queue_pair_);
  queue_pair_ = nullptr;
  device.retire_completion_queue(*send_completions_);
  device.retire_completion_queue(*receive_completions_);
  const Status deregistered = device.regions().deregister(arena.keys().lkey);
  device.free_domain(domain);
  host.unwatch(arena.memory());
  return deregistered ? std::string() : deregistered.error().message;
}

void Endpoint::publish_sends() {
  sends().publish();
  host.ring_doorbell(*queue_pair_);
}

void Endpoint::publish_receives() {
  receives().publish();
  if (queue_pair_->in_error.load()) host.ring_doorbell(*queue_pair_);
}

void Endpoint::modify(const qp::Attributes& attributes, qp::AttributeMask mask) {
  if (const int error = host.device().modify_queue_pair(*queue_pair_, attributes, mask); error != 0) {
    throw std::runtime_error("modify_queue_pair: error " + std::to_string(error));
  }
}

namespace {

void bring_up(Endpoint& endpoint, qp::Attributes attributes) {
  using namespace qp;
  attributes.access = kAccess;
  attributes.state = State::kInit;
  endpoint.modify(attributes, kMaskState | kMaskAccessFlags | kMaskPkeyIndex | kMaskPort);
  attributes.state = State::kRtr;
  endpoint.modify(attributes, kMaskState | kMaskAv | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn |
                                  kMaskMaxDestRdAtomic | kMaskMinRnrTimer);
  attributes.state = State::kRts;
  endpoint.modify(attributes, kMaskState | kMaskTimeout | kMaskRetryCount | kMaskRnrRetry | kMaskSqPsn |
                                  kMaskMaxRdAtomic);
}

}  // namespace

void connect(Endpoint& a, Endpoint& b, const ConnectionOptions& options) {
  qp::Attributes attributes;
  attributes.path_mtu = options.path_mtu;
  attributes.timeout = options.timeout;
  attributes.retry_count = options.retry_count;
  attributes.rnr_retry = 7;
  attributes.min_rnr_timer = options.min_rnr_timer;
  attributes.max_rd_atomic = options.reads;
  attributes.max_dest_rd_atomic = options.reads;

  const Gid gid_a = a.host.device().gids().at(options.gid);
  const Gid gid_b = b.host.device().gids().at(options.gid);
  attributes.path.source = gid_a;
  attributes.path.destination = gid_b;
  attributes.destination = b.number();
  attributes.sq_psn = options.psn_a;
  attributes.rq_psn = &a == &b ? options.psn_a : options.psn_b;
  bring_up(a, attributes);
  if (&a == &b) return;

  attributes.path.source = gid_b;
  attributes.path.destination = gid_a;
  attributes.destination = a.number();
  attributes.sq_psn = options.psn_b;
  attributes.rq_psn = options.psn_a;
  bring_up(b, attributes);
}

}  // namespace uroce::sim
