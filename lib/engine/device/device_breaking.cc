// What `uroce fault break` breaks at once.
#include <cerrno>
#include <mutex>

#include "engine/device/device.h"
#include "engine/device/device_state.h"
#include "mem/regions/key_breaking.h"

namespace uroce::engine {

namespace {

/// Drives the queue pair to the error state; its owner hears IBV_EVENT_QP_FATAL when what was posted is
/// flushed. `overflow`: by its completion queues. False: there is no such queue pair.
bool break_queue_pair(DeviceState& state, QpNumber number, bool overflow) {
  bool broken = false;
  state.run_with(number, [&](PollerQp& entry, qp::Turn& turn) {
    if (entry.queue_pair.state() == qp::State::kReset) return;
    qp::QueuePair* const queue_pair = entry.queue_pair.use();
    if (queue_pair == nullptr) return;
    if (overflow) queue_pair->overflow_completions(turn);
    qp::Attributes ended;
    ended.state = qp::State::kErr;
    broken = queue_pair->modify(ended, qp::kMaskState, turn) == 0;
    entry.poller().activate(entry);
  });
  // An overflow has raised it already.
  if (!broken) return false;
  state.run_with(number, [overflow](PollerQp& entry, qp::Turn&) {
    if (!overflow && entry.listener != nullptr) entry.listener->raised(qp::Event::kFatal);
  });
  return true;
}

/// The table breaks the key of a user region; what pollers bind and unbind is unbound in their turns.
int break_key(DeviceState& state, MemoryKey key) {
  // Nothing else is in that domain, so every use of the key is from another; the program can still end it.
  constexpr DomainId kNone{UINT32_MAX};
  constexpr int kAttemptsMax = 1000;
  if (state.regions.read_entry(key).kind == mem::RegionKind::kUser) {
    const Status done = state.regions.reregister(key, {.domain = kNone});
    return done ? 0 : done.error().code == EBUSY ? EBUSY : ENOENT;
  }
  using Answer = mem::Invalidation::Answer;
  mem::Invalidation invalidation;
  Answer answer = Answer::kBusy;
  bool windows = false;
  Poller& poller = *state.pollers[0];
  for (int attempts = 0; answer == Answer::kBusy && attempts < kAttemptsMax; ++attempts) {
    const bool ran = poller.run([&](qp::Turn&) {
      answer = mem::break_key(state.regions, key, invalidation);
      windows = answer == Answer::kRefused && mem::has_windows(state.regions, key);
    });
    if (!ran) return ENODEV;
  }
  if (answer == Answer::kBusy) return EBUSY;
  if (answer == Answer::kRefused) return windows ? EBUSY : ENOENT;
  for (bool over = answer == Answer::kOver; !over;)
    if (!poller.run([&](qp::Turn&) { over = invalidation.over(state.regions); })) return ENODEV;
  return 0;
}

}  // namespace

int Device::break_at_once(const faults::Breakage& broken) {
  using What = faults::Breakage::What;
  if (state_->inherited()) return ENODEV;
  if (!broken.scope.device.empty() && broken.scope.device != name()) return ENOENT;
  switch (broken.what) {
    case What::kQueuePair:
    case What::kCompletions:
      return break_queue_pair(*state_, broken.scope.queue_pair.value_or(QpNumber{}),
                              broken.what == What::kCompletions)
                 ? 0
                 : ENOENT;
    case What::kKey:
      return break_key(*state_, MemoryKey{broken.key});
    case What::kDevice:
      break;
  }
  state_->listeners.raise(DeviceEvent::kFatal);
  state_->end_queue_pairs();
  return 0;
}

}  // namespace uroce::engine
