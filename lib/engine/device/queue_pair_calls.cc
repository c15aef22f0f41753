// What the control path asks of a queue pair: its attributes, its congestion control, and its doorbell.
#include <cerrno>

#include "engine/device/device.h"
#include "engine/device/device_state.h"
#include "engine/device/queue_pair_ends.h"
#include "engine/device/queue_pair_turns.h"
#include "engine/platform/fault_handler.h"

namespace uroce::engine {

int Device::modify_queue_pair(QpSlot& queue_pair, qp::Attributes attributes, qp::AttributeMask mask) {
  DeviceState& state = *state_;
  auto& entry = static_cast<PollerQp&>(queue_pair);
  if (state.inherited()) return ENODEV;
  install_fault_handler();
  if (mask.any(qp::kMaskPathMtu) && attributes.path_mtu > path_mtu_max()) return EINVAL;
  bool to_own_address = false;
  if (mask.any(qp::kMaskAv)) {
    if (const int error = state.resolve(attributes.path, to_own_address); error != 0) return error;
  }
  int error = ENODEV;
  const auto modify = [&](qp::Turn& turn) {
    if (mask.any(qp::kMaskAv)) {
      const QpNumber peer =
          mask.any(qp::kMaskDestQpn) ? attributes.destination : entry.queue_pair.attributes().destination;
      attributes.on_host = to_own_address && !state.numbers.contains(peer);
      attributes.to_self = to_own_address && !attributes.on_host;
    }
    error = entry.queue_pair.modify(attributes, mask, turn);
    entry.sender = PollerQp::kUnknownSender;
    entry.known_to_peers = entry.known_to_peers || entry.queue_pair.state() >= qp::State::kRtr;
    if (error == 0 && mask.any(qp::kMaskState) && attributes.state != qp::State::kRts)
      entry.poller().forget_early(entry);
    entry.poller().activate(entry);
  };
  const bool ends = attributes.state == qp::State::kErr || attributes.state == qp::State::kReset;
  if (!mask.any(qp::kMaskState) || !ends) {
    run_where_it_is(entry, modify);
    return error;
  }
  drain(entry);
  run_when_answered(entry, modify);
  return error;
}

qp::Attributes Device::query_queue_pair(QpSlot& queue_pair) {
  auto& entry = static_cast<PollerQp&>(queue_pair);
  qp::Attributes attributes;
  if (state_->inherited()) return attributes;
  run_where_it_is(entry, [&](qp::Turn&) { attributes = entry.queue_pair.attributes(); });
  return attributes;
}

qp::CongestionState Device::query_congestion(QpSlot& queue_pair) {
  auto& entry = static_cast<PollerQp&>(queue_pair);
  qp::CongestionState congestion;
  if (state_->inherited()) return congestion;
  run_where_it_is(entry, [&](qp::Turn&) { congestion = entry.queue_pair.congestion(); });
  return congestion;
}

int Device::set_congestion_control(QpSlot& queue_pair, qp::CongestionControl control) {
  auto& entry = static_cast<PollerQp&>(queue_pair);
  int error = ENODEV;
  if (state_->inherited()) return error;
  run_where_it_is(entry, [&](qp::Turn&) {
    qp::QueuePair* const used = entry.queue_pair.use();
    error = used != nullptr ? used->set_congestion_control(control) : ENOMEM;
    // What waited for a rate need not wait any more.
    entry.poller().activate(entry);
  });
  return error;
}

void Device::ring_doorbell(QpSlot& queue_pair) {
  DeviceState& state = *state_;
  auto& entry = static_cast<PollerQp&>(queue_pair);
  if (state.inherited()) return;
  if (state.inline_pollers()) {
    state.turn_for_post(entry, state.clock());
  } else {
    entry.poller().ring(entry);
  }
}

}  // namespace uroce::engine
