#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <memory_resource>
#include <new>
#include <span>
#include <vector>

#include "base/tables/number_table.h"
#include "base/threads/spsc_ring.h"
#include "base/values/contract.h"
#include "queue/queue_memory.h"
#include "queue/work_request.h"

namespace uroce::queue {

class CompletionQueue;
class SharedReceiveQueue;

/// By which the packets of XRC name a shared receive queue: 24 bits, and never 0.
struct SrqNumber {
  static constexpr uint32_t kMask = 0xFFFFFF;
  uint32_t value = 0;
  [[nodiscard]] constexpr auto operator<=>(const SrqNumber&) const = default;
};

/// Identifies an XRC domain; never used again; 0 is none.
struct XrcDomainId {
  uint64_t value = 0;
  [[nodiscard]] constexpr auto operator<=>(const XrcDomainId&) const = default;
};

/// What a message that names the queue needs beside it: all that another service has from its queue pair.
struct XrcIdentity {
  XrcDomainId xrc_domain;  // whose target queue pairs it serves
  SrqNumber number;
  CompletionQueue* completions = nullptr;  // not owned
};

/// Called by the poller when fewer requests are left than set_limit() said; once, until it is called again.
/// Must not block.
class LimitListener {
 public:
  virtual void limit_reached(SharedReceiveQueue& queue) = 0;

 protected:
  ~LimitListener() = default;
};

/// Receive work requests for several queue pairs (SRQ), between one posting thread (the caller holds the
/// queue's lock) and the one poller that owns them all. A queue pair takes the oldest request with the first
/// packet of a message and gives its slot back with the last, so slots come free in any order.
class SharedReceiveQueue {
 public:
  struct Options {
    uint32_t depth = 0;                           // of depth() at first
    uint32_t segments_max = 1;                    // per request
    DomainId domain = {};                         // of their keys; of XRC, of all keys of its messages
    LimitListener* listener = nullptr;            // not owned
    void* owner = nullptr;                        // for the face that made it
    std::pmr::memory_resource* memory = nullptr;  // not owned; nullptr: the pool
    XrcIdentity xrc;                              // of XRC, for which queue pairs take it message by message
  };
  explicit SharedReceiveQueue(const Options& options);

  [[nodiscard]] const Options& options() const { return options_; }
  /// The most requests that are outstanding at a time, that is posted and not yet given back; exact. Any
  /// thread.
  [[nodiscard]] uint32_t depth() const { return depth_.load(std::memory_order_relaxed); }

  /// Everything that resize() needs, and afterwards what it has no use for any more.
  class Resizing;
  // One thread at a time.
  /// Throws bad_alloc.
  [[nodiscard]] std::unique_ptr<Resizing> prepare(uint32_t depth);
  /// While neither the posting thread nor the poller is at the queue. Requests stay, in their order, and what
  /// was taken stays where it is. False: more are outstanding than that, and nothing has changed.
  bool resize(Resizing& change);

  // Posting thread. reserve() returns a free slot, or nullptr when `depth` are in use; publish() makes it the
  // newest request.
  ReceiveRequest* reserve();
  [[nodiscard]] Segment* segments(ReceiveRequest& request) const;
  void publish(ReceiveRequest& request);

  /// Any thread. 0: none.
  void set_limit(uint32_t limit) { limit_.store(limit, std::memory_order_relaxed); }
  [[nodiscard]] uint32_t limit() const { return limit_.load(std::memory_order_relaxed); }

  // Poller.
  [[nodiscard]] bool empty() const { return rings_->posted.empty(); }
  /// The oldest; not empty.
  [[nodiscard]] const ReceiveRequest& front() const {
    UROCE_ASSERT(!empty());
    return *rings_->posted.front();
  }
  /// front() leaves the queue; its slot stays as it is until it is given back.
  ReceiveRequest& take();
  [[nodiscard]] std::span<const Segment> segments(const ReceiveRequest& request) const {
    UROCE_ASSERT(request.segments <= options_.segments_max);
    return {std::launder(reinterpret_cast<const Segment*>(&request + 1)), request.segments};
  }
  void give_back(ReceiveRequest& request);

 private:
  struct Rings {
    explicit Rings(uint32_t depth);
    SpscRing<ReceiveRequest*> posted;  // from the posting thread to the poller
    SpscRing<ReceiveRequest*> free;    // and back
  };

  const Options options_;
  const size_t stride_;  // of slots
  std::unique_ptr<Rings> rings_;
  std::atomic<uint32_t> depth_;
  std::atomic<uint32_t> limit_{0};
  // A slot stays where it is as long as the queue: a poller may be reading it whenever the depth changes.
  std::list<QueueMemory> blocks_;
  uint32_t slots_ = 0;                  // in all blocks: the largest depth ever
  std::vector<ReceiveRequest*> spare_;  // that the depth of now has no use for
};

class SharedReceiveQueue::Resizing {
 private:
  friend SharedReceiveQueue;
  explicit Resizing(uint32_t to) : depth(to), rings(std::make_unique<Rings>(to)) {}

  const uint32_t depth;
  std::unique_ptr<Rings> rings;
  std::list<QueueMemory> block;        // with more slots, or none
  std::vector<ReceiveRequest*> slots;  // in it
  std::vector<ReceiveRequest*> spare;  // room for all that there are
};

/// The shared receive queues of XRC, by number.
using SharedReceiveTable = NumberTable<SrqNumber, SharedReceiveQueue>;

}  // namespace uroce::queue
