#include "rdmacm/channel.h"

#include <cerrno>
#include <memory>

#include "rdmacm/event.h"
#include "verbs/call_guard.h"
#include "verbs/export.h"

namespace uroce::rdmacm {

Channel* make_channel() {
  auto channel = std::make_unique<Channel>();
  if (const int error = channel->events.open(); error != 0) return verbs::fail(error);
  channel->fd = channel->events.read_fd();
  return channel.release();
}

}  // namespace uroce::rdmacm

using namespace uroce::rdmacm;

extern "C" {

UROCE_EXPORT rdma_event_channel* uroce_rdma_create_event_channel() {
  return uroce::verbs::pointer_or_errno([]() -> rdma_event_channel* { return make_channel(); });
}

/// A thread that waits for an event, as rping's does at its end, goes on waiting for ever.
UROCE_EXPORT void uroce_rdma_destroy_event_channel(rdma_event_channel* face) {
  Channel& channel = object(face);
  if (channel.readers.load() == 0) delete &channel;
}

}  // extern "C"
