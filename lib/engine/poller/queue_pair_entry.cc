#include "engine/poller/queue_pair_entry.h"

#include "base/prefetch.h"

namespace uroce::engine {

constinit thread_local const QueuePairHandle* QueuePairHandle::posted_last
    __attribute__((tls_model("initial-exec"))) = nullptr;

void QueuePairHandle::prefetch() const { static_cast<const QueuePairEntry*>(this)->prefetch_all(); }

void QueuePairEntry::prefetch_all() const { prefetch_lines(this, sizeof(*this)); }

}  // namespace uroce::engine
