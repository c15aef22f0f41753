#pragma once

#include <rdma/rdma_cma.h>

#include <atomic>
#include <cstdint>
#include <deque>

#include "verbs/event_pipe.h"

namespace uroce::rdmacm {

struct Event;

/// Behind rdma_event_channel: what waits for rdma_get_cm_event, as pointers in a pipe, which the program may
/// poll. Who puts something in or takes it out but by pop() holds the core's mutex.
struct Channel : rdma_event_channel {
  verbs::EventPipe events{sizeof(Event*)};
  /// What found no room in the pipe, oldest first, under the core's mutex: a connection whose end is lost
  /// would never be given back. There are no more than a few for each id.
  std::deque<Event*> late;
  std::atomic<uint32_t> readers{0};  // threads in rdma_get_cm_event
};

inline Channel& object(rdma_event_channel* channel) { return *static_cast<Channel*>(channel); }

/// Null and errno.
Channel* make_channel();

}  // namespace uroce::rdmacm
