#include "tests/sim/endpoint.h"

#include <stdexcept>
#include <utility>

namespace uroce::sim {

Endpoint::Endpoint(Host& where, const Options& options, Random& random)
    : host(where),
      arena(where.regions(), domain, options.iova, random),
      sends({.depth = kDepth, .segments_max = kSegments, .inline_max = kInlineBytes}),
      receives({.depth = kDepth, .segments_max = kSegments}),
      send_completions({.depth = kDepth}),
      receive_completions({.depth = kDepth}),
      signal_all(options.signal_all),
      queue_pair(where.create_queue_pair({.number = options.number,
                                          .domain = domain,
                                          .signal_all = options.signal_all,
                                          .send_queue = &sends,
                                          .receive_queue = &receives,
                                          .send_completions = &send_completions,
                                          .receive_completions = &receive_completions})) {}

namespace {

void modify(Endpoint& endpoint, const qp::Attributes& attributes, uint32_t mask) {
  if (endpoint.host.modify(endpoint.queue_pair, attributes, mask) != 0) throw std::runtime_error("modify");
}

void bring_up(Endpoint& endpoint, qp::Attributes attributes) {
  using namespace qp;
  attributes.access = mem::kRemoteWrite | mem::kRemoteRead;
  attributes.state = State::kInit;
  modify(endpoint, attributes, kMaskState | kMaskAccessFlags | kMaskPkeyIndex | kMaskPort);
  attributes.state = State::kRtr;
  modify(endpoint, attributes,
         kMaskState | kMaskAv | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn | kMaskMaxDestRdAtomic |
             kMaskMinRnrTimer);
  attributes.state = State::kRts;
  modify(endpoint, attributes,
         kMaskState | kMaskTimeout | kMaskRetryCount | kMaskRnrRetry | kMaskSqPsn | kMaskMaxRdAtomic);
}

}  // namespace

void connect(Endpoint& a, Endpoint& b, const ConnectionOptions& options) {
  qp::Attributes attributes;
  attributes.path = options.path_a;
  attributes.path_mtu = options.path_mtu;
  attributes.destination = b.queue_pair.number();
  attributes.sq_psn = options.psn_a;
  attributes.rq_psn = options.psn_b;
  attributes.timeout = options.timeout;
  attributes.retry_count = options.retry_count;
  attributes.rnr_retry = 7;
  attributes.min_rnr_timer = options.min_rnr_timer;
  attributes.max_rd_atomic = options.reads;
  attributes.max_dest_rd_atomic = options.reads;
  bring_up(a, attributes);

  std::swap(attributes.path.source, attributes.path.destination);
  std::swap(attributes.path.source_mac, attributes.path.destination_mac);
  std::swap(attributes.sq_psn, attributes.rq_psn);
  attributes.destination = a.queue_pair.number();
  bring_up(b, attributes);
}

}  // namespace uroce::sim
