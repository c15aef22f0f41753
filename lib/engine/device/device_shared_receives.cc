// The life of shared receive queues and XRC domains on the control path.
//
// Decision: all targets and shared receive queues of an XRC domain belong to one poller. So do all queue
// pairs of a shared receive queue (head of shared_receive_queue.cc).
#include <algorithm>
#include <cerrno>
#include <mutex>
#include <new>
#include <optional>

#include "base/values/contract.h"
#include "engine/device/device.h"
#include "engine/device/device_state.h"

namespace uroce::engine {

namespace {

Status check(const SharedReceivesOptions& options) {
  if (options.queue.depth == 0 || options.queue.depth > Limits::kWorkRequests)
    return Error{EINVAL, "a shared receive queue has at least one work request, and not too many"};
  if (options.queue.segments_max > Limits::kSegments) return Error{EINVAL, "too many segments"};
  if ((options.xrc_domain == nullptr) != (options.completions == nullptr))
    return Error{EINVAL, "XRC needs a domain and a completion queue, and nothing else has them"};
  return {};
}

}  // namespace

Result<std::unique_ptr<SharedReceives>> Device::create_shared_receives(const SharedReceivesOptions& options) {
  DeviceState& state = *state_;
  if (state.inherited()) return Error{ENODEV, "the device was opened before fork()"};
  if (Status status = check(options); !status) return status.error();
  if (Status status = state.domains.enter(options.domain); !status) return status.error();
  std::optional<queue::SrqNumber> number;
  bool counted = false;
  try {
    queue::SharedReceiveQueue::Options of_queue = options.queue;
    of_queue.domain = options.domain;
    std::unique_lock lock(state.mutex);
    if (options.xrc_domain != nullptr) number = state.xrc_receives.allocate(state.clock());
    if (number) {
      of_queue.xrc = {
          .xrc_domain = options.xrc_domain->id, .number = *number, .completions = options.completions};
    }
    const bool numbered = options.xrc_domain == nullptr || number;
    if (numbered && state.shared_receives < Limits::kSharedReceiveQueues) {
      ++state.shared_receives;
      counted = true;
      // Its memory may be the application's to give, which does not happen under a lock.
      lock.unlock();
      auto made = std::make_unique<SharedReceives>(of_queue);
      made->domain = options.domain;
      made->xrc_domain = options.xrc_domain;
      if (number) {
        lock.lock();
        options.completions->use_lane(options.xrc_domain->poller->index());
        state.xrc_receives.publish(*number, made->queue);
      }
      return made;
    }
  } catch (const std::bad_alloc&) {
  }
  const std::lock_guard guard(state.mutex);
  if (counted) --state.shared_receives;
  if (number) state.xrc_receives.give_back(*number, state.clock());
  state.domains.leave(options.domain);
  return Error{ENOMEM, "no shared receive queue left"};
}

int Device::resize_shared_receives(SharedReceives& receives, queue::SharedReceiveQueue::Resizing& change) {
  DeviceState& state = *state_;
  if (state.inherited()) return ENODEV;
  int error = ENODEV;
  const auto resize = [&] { error = receives.queue.resize(change) ? 0 : EINVAL; };
  Poller* poller = receives.xrc_domain != nullptr ? receives.xrc_domain->poller : nullptr;
  if (poller == nullptr) {
    const std::lock_guard guard(state.mutex);
    poller = receives.poller;
    // It is no poller's yet, nor becomes one's meanwhile.
    if (poller == nullptr) resize();
  }
  if (poller != nullptr) poller->run([&](qp::Turn&) { resize(); });
  return error;
}

void Device::destroy_shared_receives(std::unique_ptr<SharedReceives> receives) {
  DeviceState& state = *state_;
  if (XrcDomain* domain = receives->xrc_domain; domain != nullptr && !state_->inherited()) {
    const queue::SrqNumber number = receives->queue.options().xrc.number;
    state.xrc_receives.unpublish(number);
    {
      const std::lock_guard guard(domain->mutex);
      domain->poller->run([&](qp::Turn&) {
        for (PollerQp* target = domain->first_target; target != nullptr; target = target->xrc->next)
          if (qp::QueuePair* const used = target->queue_pair.used(); used != nullptr)
            used->forget_receives(receives->queue);
      });
    }
    // Targets of other domains may have found it just before, to see that it is not theirs.
    state.quiescence.wait();
    state.xrc_receives.give_back(number, state.clock());
  }
  state.domains.leave(receives->domain);
  const std::lock_guard guard(state.mutex);
  --state.shared_receives;
}

Result<std::unique_ptr<XrcDomain>> Device::create_xrc_domain() {
  DeviceState& state = *state_;
  if (state.inherited()) return Error{ENODEV, "the device was opened before fork()"};
  auto made = std::make_unique<XrcDomain>();
  const std::lock_guard guard(state.mutex);
  if (state.xrc_domains == Limits::kXrcDomains) return Error{ENOMEM, "no XRC domain left"};
  ++state.xrc_domains;
  made->id = {++state.xrc_domains_ever};
  const auto least = std::ranges::min_element(state.load) - state.load.begin();
  ++state.load[static_cast<size_t>(least)];
  made->poller = state.pollers[static_cast<size_t>(least)].get();
  return made;
}

void Device::destroy_xrc_domain(std::unique_ptr<XrcDomain> domain) {
  DeviceState& state = *state_;
  UROCE_ASSERT(domain->first_target == nullptr);
  const std::lock_guard guard(state.mutex);
  --state.xrc_domains;
  --state.load[domain->poller->index()];
}

}  // namespace uroce::engine
