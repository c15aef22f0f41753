// Decision: events wait in a map, and the pipe has one byte while there are any, so that a program can poll
// the channel. No byte is written while a thread looks for events. A forked child leaves its parent's byte
// alone, unless it looks for events in the channel.
//
// Decision: a caller on a destroyed channel waits for ever. rping's thread may come just after its
// destruction, and an error would end the program. Cost: that channel is never freed.
//
// Decision: rdma_create_event_channel opens the devices. Otherwise the first rdma_resolve_addr would start
// EAL in an event loop. A device that cannot be opened fails only the call that needs it.
#include "rdmacm/channel.h"

#include <unistd.h>

#include <cerrno>
#include <deque>
#include <mutex>
#include <utility>

#include "base/process/cancellation.h"
#include "base/process/per_process.h"
#include "rdmacm/core.h"
#include "rdmacm/device.h"
#include "verbs/calls/call_guard.h"
#include "verbs/calls/export.h"

namespace uroce::rdmacm {
namespace {

constexpr size_t kRestingMax = 64;

/// A thread may be about to enter, as rping's is when it has acknowledged its last event: it has to find that
/// the channel is destroyed.
void rest(Channel& channel) {
  channel.signal.close();
  static PerProcess<std::deque<std::unique_ptr<Channel>>> all;
  auto& resting = all.get();
  std::unique_ptr<Channel> oldest;
  const std::lock_guard guard(core().mutex);
  resting.emplace_back(&channel);
  if (resting.size() <= kRestingMax) return;
  oldest = std::move(resting.front());
  resting.pop_front();
  // A thread has come and stays for ever: so does the channel.
  if (oldest->in_use()) static_cast<void>(oldest.release());
}

}  // namespace

/// In a forked child, before its first use: the byte in the pipe, the threads and the events are its
/// parent's.
void Channel::leave_to_parent() {
  if (forks_ == fork_count()) return;
  forks_ = fork_count();
  signalled_ = false;
  looking_ = 0;
  first_own_ = next_place_;
}

/// Writes the byte, or takes it out, as it has to be.
void Channel::signal_or_not() {
  leave_to_parent();
  any_.store(!waiting_.empty(), std::memory_order_relaxed);
  const bool own_wait = !waiting_.empty() && waiting_.rbegin()->first >= first_own_;
  const std::byte byte{};
  if (!signalled_ && own_wait && looking_ == 0) signalled_ = signal.push(&byte);
  // A thread that has read the byte meanwhile finds nothing, or what comes next.
  if (signalled_ && !own_wait)
    signalled_ =
        signal.remove_if([first = true](const void*) mutable { return std::exchange(first, false); }) == 0;
}

void Channel::begin_look() {
  leave_to_parent();
  ++looking_;
}

void Channel::put(std::unique_ptr<Event> event) {
  leave_to_parent();
  const uint64_t place = next_place_++;
  places_.emplace(event->owner, place);
  waiting_.emplace(place, std::move(event));
  signal_or_not();
}

std::unique_ptr<Event> Channel::take_oldest() {
  std::unique_ptr<Event> oldest;
  if (!waiting_.empty()) {
    auto first = waiting_.extract(waiting_.begin());
    places_.erase({first.mapped()->owner, first.key()});
    oldest = std::move(first.mapped());
  }
  signal_or_not();
  return oldest;
}

std::unique_ptr<Event> Channel::take_first() { return waiting_.empty() ? nullptr : take_oldest(); }

std::unique_ptr<Event> Channel::take_signalled() {
  signalled_ = false;
  return take_oldest();
}

std::unique_ptr<Event> Channel::take_found() {
  --looking_;
  return take_oldest();
}

std::vector<std::unique_ptr<Event>> Channel::take_of(const Id& id,
                                                     const std::function<bool(const Event&)>& wanted) {
  std::vector<std::unique_ptr<Event>> taken;
  for (auto place = places_.lower_bound({&id, 0}); place != places_.end() && place->first == &id;) {
    const auto event = waiting_.find(place->second);
    if (!wanted(*event->second)) {
      ++place;
      continue;
    }
    taken.push_back(std::move(event->second));
    waiting_.erase(event);
    place = places_.erase(place);
  }
  signal_or_not();
  return taken;
}

void Channel::stay_if_destroyed() const {
  const CancellableWait waiting;
  while (destroyed_) pause();
}

void Channel::leave() {
  if (--users_ == 0 && destroyed_) rest(*this);
}

void Channel::destroy() {
  ++users_;
  destroyed_ = true;
  leave();
}

Channel* make_channel() {
  auto channel = std::make_unique<Channel>();
  if (const int error = channel->signal.open(); error != 0) return verbs::fail(error);
  channel->fd = channel->signal.read_fd();
  return channel.release();
}

}  // namespace uroce::rdmacm

using namespace uroce::rdmacm;

extern "C" {

UROCE_EXPORT rdma_event_channel* uroce_rdma_create_event_channel() {
  return uroce::verbs::pointer_or_errno([]() -> rdma_event_channel* {
    // Or the first rdma_resolve_addr would, in an event loop. What fails is said by the call that needs a
    // device.
    static_cast<void>(devices());
    return make_channel();
  });
}

/// A thread that waits for an event, or comes a moment later to do so, waits for ever.
UROCE_EXPORT void uroce_rdma_destroy_event_channel(rdma_event_channel* channel) { object(channel).destroy(); }

}  // extern "C"
