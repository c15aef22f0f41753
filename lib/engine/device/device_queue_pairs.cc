// The life of queue pairs on the control path: created and destroyed. What their poller owns is done by
// commands to it.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <new>
#include <optional>
#include <thread>
#include <vector>

#include "base/values/contract.h"
#include "engine/device/device.h"
#include "engine/device/device_state.h"
#include "engine/device/queue_pair_ends.h"
#include "engine/device/queue_pair_turns.h"
#include "engine/platform/fault_handler.h"
#include "host/shared_device.h"

namespace uroce::engine {

namespace {

Status check(const QueuePairOptions& options) {
  const bool sends = options.type != qp::Type::kXrcReceive;
  const bool receives = sends && options.type != qp::Type::kXrcSend;
  if (sends != (options.send_completions != nullptr) || receives != (options.receive_completions != nullptr))
    return Error{EINVAL, "a queue pair needs a completion queue for what it does itself"};
  if (sends != (options.domain != DomainId{}))
    return Error{EINVAL, "a queue pair needs a protection domain for what it does itself"};
  if (sends != (options.xrc_domain == nullptr))
    return Error{EINVAL, "an XRC target has an XRC domain, and nothing else has"};
  if (std::max(options.send_depth, options.receive_depth) > Limits::kWorkRequests) {
    return Error{EINVAL, "too many work requests"};
  }
  if (std::max(options.send_segments, options.receive_segments) > Limits::kSegments) {
    return Error{EINVAL, "too many segments"};
  }
  if (options.inline_bytes > Limits::kInlineBytes) return Error{EINVAL, "too many inline bytes"};
  return {};
}

/// Connected ones, but for those that share what belongs to one poller.
bool may_follow(const QueuePairOptions& options) {
  const bool connected = options.type == qp::Type::kRc || options.type == qp::Type::kUc;
  return connected && options.shared_receives == nullptr && !options.thread_domain;
}

constexpr uint32_t attachment_bytes(qp::Type type) {
  if (type == qp::Type::kXrcSend) return sizeof(queue::SrqNumber);
  return type == qp::Type::kUd ? sizeof(qp::DatagramAddress) : 0;
}

uint64_t lanes_used(const queue::CompletionQueue* queue) {
  return queue != nullptr ? queue->lanes_used() : 0;
}

void use_lane(queue::CompletionQueue* queue, uint16_t lane) {
  if (queue != nullptr) queue->use_lane(lane);
}

/// An XRC target has no protection domain.
Status enter(DeviceState& state, const QueuePairOptions& options) {
  return options.domain == DomainId{} ? Status{} : state.domains.enter(options.domain);
}
void leave(DeviceState& state, DomainId domain) {
  if (domain != DomainId{}) state.domains.leave(domain);
}

void add_target(XrcPlace& place, PollerQp& entry) {
  const std::lock_guard guard(place.domain.mutex);
  place.next = place.domain.first_target;
  if (place.next != nullptr) place.next->xrc->previous = &entry;
  place.domain.first_target = &entry;
}
void remove_target(const XrcPlace& place) {
  const std::lock_guard guard(place.domain.mutex);
  (place.previous != nullptr ? place.previous->xrc->next : place.domain.first_target) = place.next;
  if (place.next != nullptr) place.next->xrc->previous = place.previous;
}

}  // namespace

Poller& DeviceState::choose_poller(const QueuePairOptions& options) {
  if (options.shared_receives != nullptr && options.shared_receives->poller != nullptr)
    return *options.shared_receives->poller;
  if (options.xrc_domain != nullptr) return *options.xrc_domain->poller;
  if (options.thread_domain) return *pollers[options.thread_domain->poller];
  const uint64_t served = lanes_used(options.receive_completions) | lanes_used(options.send_completions);
  size_t best = served != 0 ? static_cast<size_t>(__builtin_ctzll(served)) : 0;
  for (size_t i = 0; i < pollers.size(); ++i) {
    if (served != 0 && (served >> i & 1) == 0) continue;
    if (load[i] < load[best]) best = i;
  }
  return *pollers[best];
}

namespace {

struct Rings {
  queue::SendQueue::Ring send;
  queue::ReceiveQueue::Ring receive;
};

Rings make_rings(const QueuePairOptions& options) {
  return {queue::SendQueue::Ring({.depth = options.send_depth,
                                  .segments_max = options.send_segments,
                                  .inline_max = options.inline_bytes,
                                  .attachment_bytes = attachment_bytes(options.type),
                                  .memory = options.memory}),
          queue::ReceiveQueue::Ring({.depth = options.receive_depth,
                                     .segments_max = options.receive_segments,
                                     .inline_max = 0,
                                     .memory = options.memory})};
}

/// A number for a queue pair. Where none is free but some rest, the caller waits for the first of these: a
/// program that connects and disconnects faster than numbers rest is slowed down, and does not fail. nullopt:
/// there are `queue_pairs_max` queue pairs, or others were quicker for too long.
std::optional<QpNumber> take_number(DeviceState& state, size_t queue_pairs_max) {
  constexpr Duration kNap = milliseconds(10);
  constexpr Duration kLeast = microseconds(20);
  for (Duration left = QueuePairTable::kRest * 2; left.ns > 0;) {
    {
      const std::lock_guard guard(state.mutex);
      if (state.entries.size() >= queue_pairs_max) return std::nullopt;
    }
    const Instant now = state.clock();
    if (const auto number = state.queue_pairs.allocate(now)) return number;
    const std::optional<Instant> rested = state.queue_pairs.rested_at();
    if (!rested) return std::nullopt;
    const Duration nap = std::clamp(*rested - now, kLeast, kNap);
    std::this_thread::sleep_for(std::chrono::nanoseconds(nap.ns));
    left = left - nap;
  }
  return std::nullopt;
}

std::unique_ptr<PollerQp> make_entry(const QueuePairOptions& options, const Device& device, QpNumber number,
                                     mem::QpIdentity identity, Rings rings, Poller& poller,
                                     const DeviceState& state) {
  const bool shares = options.shared_receives != nullptr;
  std::unique_ptr<XrcPlace> xrc;
  if (options.xrc_domain != nullptr) xrc.reset(new XrcPlace{*options.xrc_domain});
  auto entry = std::make_unique<PollerQp>(
      qp::QueuePair::Options{
          .transport = &state.transport,
          .type = options.type,
          .number = number,
          .identity = identity,
          .domain = options.domain,
          .signal_all = options.signal_all,
          .reserved_lkey = options.reserved_lkey,
          .datagram_mtu = path_mtu_bytes(device.path_mtu_max()),
          .shared_receives = shares ? &options.shared_receives->queue : nullptr,
          .send_completions = options.send_completions,
          .receive_completions = options.receive_completions,
          .listener = options.listener,
          .xrc_domain = options.xrc_domain != nullptr ? options.xrc_domain->id : queue::XrcDomainId{}},
      std::move(rings.send), std::move(rings.receive), poller.siblings(), poller.index());
  entry->may_follow = may_follow(options) && state.follow_packets;
  entry->xrc = std::move(xrc);
  return entry;
}

}  // namespace

PollerQp& DeviceState::add(const QueuePairOptions& options, std::unique_ptr<PollerQp> entry) {
  PollerQp& added = entries.add(std::move(entry));
  if (added.xrc != nullptr) add_target(*added.xrc, added);
  if (options.shared_receives != nullptr) options.shared_receives->poller = &added.poller();
  use_lane(options.send_completions, added.made_for);
  use_lane(options.receive_completions, added.made_for);
  ++load[added.made_for];
  queue_pairs.publish(added.number, added);
  show_queue_pairs();
  return added;
}

void DeviceState::tell_speed(uint32_t mbps) {
  for (const auto& poller : pollers) poller->run([mbps](qp::Turn& turn) { turn.line_mbps = mbps; });
}

bool DeviceState::run_with(QpNumber number, const std::function<void(PollerQp&, qp::Turn&)>& function) {
  const auto poller_of = [&]() -> Poller* {
    // Its memory stays as long as its number is found under the mutex, ...
    const std::lock_guard guard(mutex);
    const PollerQp* const entry = queue_pairs.find(number);
    return entry != nullptr ? &entry->poller() : nullptr;
  };
  // ... or, once it is found in a turn, until that is over.
  return run_where_found(
      poller_of, [&] { return queue_pairs.find(number); }, function);
}

void DeviceState::end_queue_pairs() {
  std::vector<QpNumber> numbers_met;
  {
    const std::lock_guard guard(mutex);
    for (PollerQp* entry = entries.first(); entry != nullptr; entry = entry->next)
      numbers_met.push_back(entry->number);
  }
  qp::Attributes ended;
  ended.state = qp::State::kErr;
  for (const QpNumber number : numbers_met) {
    run_with(number, [&](PollerQp& entry, qp::Turn& turn) {
      if (entry.queue_pair.state() == qp::State::kReset) return;
      (void)entry.queue_pair.modify(ended, qp::kMaskState, turn);
      entry.poller().activate(entry);
    });
  }
}

void DeviceState::show_queue_pairs() const {
  if (port == nullptr) return;  // the process ends
  if (host::SharedDevice* const shared = port->shared_device())
    shared->show_queue_pairs(static_cast<uint32_t>(entries.size()));
}

namespace {

/// With the device's mutex held.
Status check_poller(const Poller& poller, const QueuePairOptions& options) {
  if (options.thread_domain && poller.index() != options.thread_domain->poller)
    return Error{EINVAL, "the shared receive queue is another thread's"};
  return {};
}

/// Throws bad_alloc. The wait for a number comes behind all that can refuse.
Result<QpSlot*> make_queue_pair(const QueuePairOptions& options, const Device& device, DeviceState& state) {
  Rings rings = make_rings(options);
  {
    const std::lock_guard guard(state.mutex);
    if (Status status = check_poller(state.choose_poller(options), options); !status) return status.error();
  }
  const size_t max = device.queue_pairs_max();
  // Made before there is a number to give back.
  Error refusal{ENOMEM, "no queue pair left"};
  Error no_memory{ENOMEM, "no memory for the queues"};
  const std::optional<QpNumber> number = take_number(state, max);
  if (!number) return refusal;
  try {
    const std::lock_guard guard(state.mutex);
    Poller& poller = state.choose_poller(options);
    const Status fits = check_poller(poller, options);
    if (fits && state.entries.size() < max)
      return &state.add(options, make_entry(options, device, *number, {++state.queue_pairs_ever},
                                            std::move(rings), poller, state));
    if (!fits) refusal = fits.error();
  } catch (const std::bad_alloc&) {
    refusal = std::move(no_memory);
  }
  state.queue_pairs.give_back(*number, state.clock(), QueuePairTable::Known::kToNobody);
  return refusal;
}

}  // namespace

Result<QpSlot*> Device::create_queue_pair(const QueuePairOptions& options) {
  DeviceState& state = *state_;
  if (state.inherited()) return Error{ENODEV, "the device was opened before fork()"};
  if (Status status = check(options); !status) return status.error();
  install_fault_handler();
  if (Status status = enter(state, options); !status) return status.error();
  Result<QpSlot*> made = Error{ENOMEM, "no memory for the queues"};
  try {
    made = make_queue_pair(options, *this, state);
  } catch (const std::bad_alloc&) {
  }
  if (!made) leave(state, options.domain);
  return made;
}

void Device::destroy_queue_pair(QpSlot& queue_pair) {
  DeviceState& state = *state_;
  auto& entry = static_cast<PollerQp&>(queue_pair);
  if (state.inherited()) return;  // its poller may stand in the middle of a turn for ever
  UROCE_ASSERT(!in_groups(queue_pair));
  drain(entry);
  state.queue_pairs.unpublish(entry.number);
  bool forgotten = false;
  bool abandoned = false;
  const auto end = [&](qp::Turn& turn) {
    forgotten = entry.poller().forget(entry);
    abandoned = abandoned || entry.queue_pair.abandon(turn);
  };
  run_when_answered(entry, end);
  // Other pollers may have found the entry just before, to hand a frame over, or be at memory that it was
  // about to invalidate.
  state.quiescence.wait();
  // Another poller may have a doorbell of it still, or expect it.
  while (!(forgotten && abandoned) && run_where_it_is(entry, end)) {
    if (state.pollers.size() == 1) continue;
    for (const auto& poller : state.pollers) poller->turn(state.clock());
  }
  if (entry.xrc != nullptr) remove_target(*entry.xrc);
  // Its memory goes without the lock: it may be the application's to take back.
  std::unique_ptr<PollerQp> ended;
  const std::lock_guard guard(state.mutex);
  using Known = QueuePairTable::Known;
  state.queue_pairs.give_back(entry.number, state.clock(),
                              entry.known_to_peers ? Known::kToPeers : Known::kToNobody);
  leave(state, entry.queue_pair.domain());
  --state.load[entry.made_for];
  ended = state.entries.take(entry);
  state.show_queue_pairs();
}

void Device::destroy_queue_pairs(const std::function<bool(const QpSlot&)>& is_meant) {
  DeviceState& state = *state_;
  if (state.inherited()) return;
  std::vector<PollerQp*> meant;
  {
    const std::lock_guard guard(state.mutex);
    for (PollerQp* entry = state.entries.first(); entry != nullptr; entry = entry->next) {
      if (is_meant(*entry)) meant.push_back(entry);
    }
  }
  for (PollerQp* entry : meant) {
    if (in_groups(*entry)) {
      MulticastGroups::Retired retired;
      {
        const std::lock_guard guard(state.mutex);
        state.groups.detach_all(*entry, retired);
      }
      state.quiescence.wait();
      state.joined_groups.leave_unused();
    }
    destroy_queue_pair(*entry);
  }
}

}  // namespace uroce::engine
