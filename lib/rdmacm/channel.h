#pragma once

#include <rdma/rdma_cma.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/process/forks.h"
#include "rdmacm/event.h"
#include "verbs/calls/event_pipe.h"

namespace uroce::rdmacm {

/// Behind rdma_event_channel: what waits for rdma_get_cm_event, and a pipe that the program may poll.
struct Channel : rdma_event_channel {
  /// One byte while events wait, unless a thread looks for them or has read it: such a thread is about to
  /// take one. A forked child has the pipe, too, and leaves the byte of its parent alone.
  verbs::EventPipe signal{1};

  // With the core's mutex held. Putting in and taking out cost the logarithm of how many there are.
  void put(std::unique_ptr<Event> event);
  /// The oldest one; null: there is none.
  std::unique_ptr<Event> take_first();
  /// For a thread that has read the byte; null: what was signalled has been taken since.
  std::unique_ptr<Event> take_signalled();
  /// A thread begins to look for events, which it takes in the end by take_found(). Events that come
  /// meanwhile need no byte.
  void begin_look();
  /// The oldest one; null: none has come.
  std::unique_ptr<Event> take_found();
  /// Takes the id's events for which `wanted` says so, oldest first.
  std::vector<std::unique_ptr<Event>> take_of(const Id& id, const std::function<bool(const Event&)>& wanted);

  /// Around each rdma_get_cm_event, which a thread may also leave by being cancelled.
  class Use {
   public:
    explicit Use(Channel& channel) : channel_(channel) { ++channel.users_; }
    ~Use() { channel_.leave(); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Channel& channel_;
  };
  /// Within a use: a thread that comes when the channel is destroyed stays for ever.
  void stay_if_destroyed() const;
  /// The channel is freed some time after the last thread has left.
  void destroy();
  [[nodiscard]] bool in_use() const { return users_ != 0; }

  /// Events wait. Any thread, a moment's truth.
  [[nodiscard]] bool has_events() const { return any_.load(std::memory_order_relaxed); }

 private:
  void leave();
  std::unique_ptr<Event> take_oldest();
  void leave_to_parent();
  void signal_or_not();

  std::map<uint64_t, std::unique_ptr<Event>> waiting_;  // in their order
  std::set<std::pair<const Id*, uint64_t>> places_;     // of each id's events in it
  uint64_t next_place_ = 0;
  uint32_t forks_ = fork_count();   // of the process that last used it
  uint64_t first_own_ = 0;          // place of an event of that process; those before are its parent's
  uint32_t looking_ = 0;            // threads
  bool signalled_ = false;          // the byte is there, or a thread has read it
  std::atomic<bool> any_ = false;   // events wait
  std::atomic<uint32_t> users_{0};  // destroy() among them
  std::atomic<bool> destroyed_{false};
};

inline Channel& object(rdma_event_channel* channel) { return *static_cast<Channel*>(channel); }

/// Null and errno.
Channel* make_channel();

}  // namespace uroce::rdmacm
