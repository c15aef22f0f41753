// About 60 lines of both ends come from memory for a message of one of 100,000 queue pairs, one wait after
// the other. A post, or a packet of a burst that was not looked ahead, for another queue pair than the last
// prefetches them all at once. Traffic of one queue pair pays a comparison (perf/run --only scale).
#include "engine/poller/poller_qp.h"

#include <cstddef>
#include <cstdint>

#include "base/values/prefetch.h"

namespace uroce::engine {

constinit thread_local const QpSlot* QpSlot::posted_last __attribute__((tls_model("initial-exec"))) = nullptr;

void QpSlot::prefetch() const { static_cast<const PollerQp*>(this)->prefetch_all(); }

void PollerQp::prefetch_own() const {
  // Of what it was made with nothing is looked at once it is in use.
  const size_t to_transport =
      reinterpret_cast<uintptr_t>(&queue_pair) - reinterpret_cast<uintptr_t>(this) + sizeof(void*);
  prefetch_lines(this, to_transport);
}

void PollerQp::prefetch_transport() const {
  if (const void* const transport = queue_pair.place(); transport != nullptr)
    prefetch_lines(transport, sizeof(qp::QueuePair));
}

}  // namespace uroce::engine
