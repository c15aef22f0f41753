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

#include "rdmacm/event.h"
#include "verbs/event_pipe.h"

namespace uroce::rdmacm {

/// Behind rdma_event_channel: what waits for rdma_get_cm_event, and a pipe that the program may poll.
struct Channel : rdma_event_channel {
  /// One byte while events wait, or a thread has read it and is about to take one.
  verbs::EventPipe signal{1};

  // With the core's mutex held. Putting in and taking out cost the logarithm of how many there are.
  void put(std::unique_ptr<Event> event);
  /// The oldest one; null: those that were signalled have been taken back. To be called for each byte read.
  std::unique_ptr<Event> take_first();
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

 private:
  void leave();
  void tell();

  std::map<uint64_t, std::unique_ptr<Event>> waiting_;  // in their order
  std::set<std::pair<const Id*, uint64_t>> places_;     // of each id's events in it
  uint64_t next_place_ = 0;
  bool told_ = false;
  std::atomic<uint32_t> users_{0};  // destroy() among them
  std::atomic<bool> destroyed_{false};
};

inline Channel& object(rdma_event_channel* channel) { return *static_cast<Channel*>(channel); }

/// Null and errno.
Channel* make_channel();

}  // namespace uroce::rdmacm
