#pragma once

#include <cstdint>
#include <memory_resource>
#include <mutex>
#include <optional>

#include "base/tables/pooled.h"
#include "base/values/identifiers.h"
#include "qp/attributes/attributes.h"
#include "qp/attributes/event.h"
#include "queue/completion_queue.h"
#include "queue/shared_receive_queue.h"

// What queue pairs and shared receive queues are made of.
namespace uroce::engine {

class Poller;
struct PollerQp;

/// What target queue pairs and shared receive queues of XRC have in common. Made and destroyed by Device.
struct XrcDomain {
  queue::XrcDomainId id;
  Poller* poller = nullptr;          // whose all of them are
  std::mutex mutex;                  // not taken on the packet path
  PollerQp* first_target = nullptr;  // of a list, under the mutex
};

/// A receive queue that queue pairs share. Made and destroyed by Device.
struct SharedReceives : Pooled {
  explicit SharedReceives(const queue::SharedReceiveQueue::Options& options) : queue(options) {}

  queue::SharedReceiveQueue queue;
  DomainId domain;
  Poller* poller = nullptr;  // whose queue pairs use it: that of the first
  XrcDomain* xrc_domain = nullptr;
};

struct SharedReceivesOptions {
  DomainId domain;
  queue::SharedReceiveQueue::Options queue;
  // Of XRC, both:
  XrcDomain* xrc_domain = nullptr;
  queue::CompletionQueue* completions = nullptr;
};

/// One thread of the application: what it uses is one poller's.
struct ThreadDomain {
  uint16_t poller = 0;
};

struct QueuePairOptions {
  qp::Type type = qp::Type::kRc;
  DomainId domain;
  bool signal_all = false;
  bool reserved_lkey = false;  // may use it
  uint32_t send_depth = 0;
  uint32_t receive_depth = 0;
  uint32_t send_segments = 1;
  uint32_t receive_segments = 1;
  uint32_t inline_bytes = 0;
  queue::CompletionQueue* send_completions = nullptr;
  queue::CompletionQueue* receive_completions = nullptr;
  SharedReceives* shared_receives = nullptr;  // instead of a queue of its own
  XrcDomain* xrc_domain = nullptr;            // of a target queue pair, which has nothing of the above
  /// Not owned: called by the queue pair's poller when the turn's completions are visible. Must not block.
  qp::EventListener* listener = nullptr;
  std::optional<ThreadDomain> thread_domain = {};
  /// Not owned: where the queues lie; nullptr: the pool. Called in the constructing and destroying thread,
  /// without locks.
  std::pmr::memory_resource* memory = nullptr;
};

}  // namespace uroce::engine
