#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <new>
#include <span>

#include "base/number_table.h"
#include "base/spsc_ring.h"
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

/// Of an XRC domain, never used again; 0 is none.
struct XrcDomainId {
  uint64_t value = 0;
  [[nodiscard]] constexpr auto operator<=>(const XrcDomainId&) const = default;
};

/// What a message that names the queue needs beside it: all that another service has from its queue pair.
struct XrcIdentity {
  XrcDomainId xrc_domain;  // whose target queue pairs it serves
  SrqNumber number;
  DomainId domain;                         // of all keys
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
    uint32_t depth = 0;                           // requests posted and not yet given back at most; exact
    uint32_t segments_max = 1;                    // per request
    LimitListener* listener = nullptr;            // not owned
    void* owner = nullptr;                        // for the face that made it
    std::pmr::memory_resource* memory = nullptr;  // not owned; nullptr: the heap
    XrcIdentity xrc;                              // of XRC, for which queue pairs take it message by message
  };
  explicit SharedReceiveQueue(const Options& options);

  [[nodiscard]] const Options& options() const { return options_; }

  // Posting thread. reserve() returns a free slot, or nullptr when `depth` are in use; publish() makes it the
  // newest request.
  ReceiveRequest* reserve();
  [[nodiscard]] Segment* segments(ReceiveRequest& request) const;
  void publish(const ReceiveRequest& request);

  /// Any thread. 0: none.
  void set_limit(uint32_t limit) { limit_.store(limit, std::memory_order_relaxed); }
  [[nodiscard]] uint32_t limit() const { return limit_.load(std::memory_order_relaxed); }

  // Poller.
  [[nodiscard]] bool empty() const { return posted_.empty(); }
  /// The oldest; not empty.
  [[nodiscard]] const ReceiveRequest& front() const { return *slot(posted_.front()); }
  /// front() leaves the queue; its slot stays as it is until it is given back.
  const ReceiveRequest& take();
  [[nodiscard]] std::span<const Segment> segments(const ReceiveRequest& request) const;
  void give_back(const ReceiveRequest& request);

 private:
  [[nodiscard]] ReceiveRequest* slot(uint32_t index) const {
    return std::launder(reinterpret_cast<ReceiveRequest*>(memory_.get() + index * stride_));
  }
  [[nodiscard]] uint32_t index_of(const ReceiveRequest& request) const {
    return static_cast<uint32_t>(
        static_cast<size_t>(reinterpret_cast<const std::byte*>(&request) - memory_.get()) / stride_);
  }
  Options options_;
  size_t stride_ = 0;
  QueueMemory memory_;
  SpscRing<uint32_t> posted_;  // from the posting thread to the poller
  SpscRing<uint32_t> free_;    // and back
  std::atomic<uint32_t> limit_{0};
};

/// Those of XRC.
using SharedReceiveTable = NumberTable<SrqNumber, SharedReceiveQueue>;

}  // namespace uroce::queue
