#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory_resource>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

#include "base/tables/pooled.h"
#include "base/values/contract.h"
#include "queue/work_request.h"

namespace uroce::queue {

/// Fixed-size ring of work requests between one posting thread (the caller holds the queue's lock) and the
/// poller that owns the queue pair. A slot holds the request and, behind it, its segments, its inline bytes,
/// or what a local operation asks for, and its attachment. A slot stays occupied from publish() until the
/// poller retires it. Slots are not touched before they are reserved for the first time.
///
/// An object of 80 bytes: 24 that are the poller's, and then those of the posting thread, which should lie on
/// one line.
template <typename Request>
class WorkQueue : public Pooled {
 public:
  struct Options {
    uint32_t depth = 0;             // requests outstanding at most; exact. 0: it takes no memory
    uint32_t segments_max = 1;      // per request
    uint32_t inline_max = 0;        // bytes per request
    uint32_t attachment_bytes = 0;  // for something that goes with every request, beside its data
    std::pmr::memory_resource* memory = nullptr;  // not owned; nullptr: the pool
  };

  /// The memory of a queue and its shape. Memory may be the application's to give, so it can be had before
  /// the queue is made, where a lock is held.
  struct Ring {
    /// Throws bad_alloc.
    explicit Ring(const Options& options);
    Ring(Ring&& other) noexcept : Ring(other) { other.memory = nullptr; }
    Ring& operator=(Ring&&) = delete;
    ~Ring();
    [[nodiscard]] size_t bytes() const { return (size_t{mask} + 1) * stride; }

    std::byte* memory = nullptr;
    size_t stride = 0;  // of slots
    uint32_t mask = 0;
    uint32_t depth;
    std::pmr::memory_resource* from;
    uint32_t segments_max;
    uint32_t attachment_offset = 0;
    uint32_t attachment_bytes;

   private:
    Ring(const Ring&) = default;
  };

  explicit WorkQueue(Ring ring)
      : memory_(ring.memory), stride_(ring.stride), mask_(ring.mask), ring_(std::move(ring)) {}
  /// Throws bad_alloc.
  explicit WorkQueue(const Options& options) : WorkQueue(Ring(options)) {}

  /// Most segments of a request.
  [[nodiscard]] uint32_t segments_max() const { return ring_.segments_max; }
  /// How long the memory is that the slots lie in.
  [[nodiscard]] size_t bytes() const { return ring_.bytes(); }

  /// Where in the object what the posting thread writes begins; 56 bytes.
  static constexpr size_t kPostingAt = 24;
  /// Bytes behind a send request, at least: room for a local operation.
  static constexpr size_t kOperationBytes = 64;

  // Posting thread. reserve() returns the next free slot or nullptr when `depth` requests are outstanding;
  // the slot becomes visible to the poller, together with all reserved before it, by publish(). cancel()
  // forgets what was reserved since the last publish(). reserve_used() is for callers that write all of the
  // request: an older one is still in it, or whatever the memory held.
  Request* reserve_used() {
    if (reserved_ - retired_seen_ >= ring_.depth && !look_for_room()) [[unlikely]]
      return nullptr;
    UROCE_ASSERT(reserved_ - retired_seen_ < ring_.depth);
    return slot(ring_.memory, ring_.stride, reserved_++ & ring_.mask);
  }
  Request* reserve() {
    Request* const request = reserve_used();
    return request != nullptr ? new (request) Request() : nullptr;
  }
  void publish() {
    UROCE_ASSERT(reserved_ - published_.load(std::memory_order_relaxed) <= ring_.depth);  // its own store
    published_.store(reserved_, std::memory_order_release);  // pairs with the acquire in published()
  }
  void cancel() {
    const uint32_t published = published_.load(std::memory_order_relaxed);
    UROCE_ASSERT(reserved_ - published <= ring_.depth);
    reserved_ = published;
  }
  /// Requests [published(), reserved()) were reserved since the last publish().
  [[nodiscard]] uint32_t reserved() const { return reserved_; }
  [[nodiscard]] Request& reserved_at(uint32_t number) {
    UROCE_ASSERT(number - published() < reserved_ - published());
    return *slot(ring_.memory, ring_.stride, number & ring_.mask);
  }

  // Either side: what lies behind a request. An operation is trivially copyable and no longer than
  // kOperationBytes.
  [[nodiscard]] Segment* segments(Request& request) const {
    return std::launder(reinterpret_cast<Segment*>(&request + 1));
  }
  [[nodiscard]] std::span<const Segment> segments(const Request& request) const {
    UROCE_ASSERT(request.segments <= ring_.segments_max);
    return {std::launder(reinterpret_cast<const Segment*>(&request + 1)), request.segments};
  }
  [[nodiscard]] std::byte* inline_bytes(Request& request) const {
    return reinterpret_cast<std::byte*>(&request + 1);
  }
  [[nodiscard]] const std::byte* inline_bytes(const Request& request) const {
    return reinterpret_cast<const std::byte*>(&request + 1);
  }
  /// A send queue. They have a place of their own, behind the longest list of segments.
  [[nodiscard]] AtomicOperands& operands(Request& request) const {
    return *std::launder(reinterpret_cast<AtomicOperands*>(segments(request) + ring_.segments_max));
  }
  [[nodiscard]] const AtomicOperands& operands(const Request& request) const {
    const Segment* const list = segments(request).data();
    return *std::launder(reinterpret_cast<const AtomicOperands*>(list + ring_.segments_max));
  }
  template <typename Operation>
  void set_operation(Request& request, const Operation& operation) const {
    static_assert(std::is_trivially_copyable_v<Operation> && sizeof(Operation) <= kOperationBytes);
    std::memcpy(inline_bytes(request), &operation, sizeof(operation));
  }
  template <typename Operation>
  [[nodiscard]] Operation operation(const Request& request) const {
    static_assert(std::is_trivially_copyable_v<Operation> && sizeof(Operation) <= kOperationBytes);
    Operation operation;
    std::memcpy(&operation, inline_bytes(request), sizeof(operation));
    return operation;
  }

  /// What goes with a request: of a type that is trivially copyable and as long as attachment_bytes. There
  /// when it was attached.
  template <typename Attachment>
  void attach(Request& request, const Attachment& attachment) const {
    static_assert(std::is_trivially_copyable_v<Attachment> && alignof(Attachment) <= kAttachmentAlignment);
    UROCE_ASSERT(sizeof(Attachment) == ring_.attachment_bytes);
    new (reinterpret_cast<std::byte*>(&request) + ring_.attachment_offset) Attachment(attachment);
  }
  template <typename Attachment>
  [[nodiscard]] const Attachment& attachment(const Request& request) const {
    UROCE_ASSERT(sizeof(Attachment) == ring_.attachment_bytes);
    const auto* from = reinterpret_cast<const std::byte*>(&request) + ring_.attachment_offset;
    return *std::launder(reinterpret_cast<const Attachment*>(from));
  }

  // Poller. Requests are numbered by free-running counters: [retired(), published()) are outstanding.
  [[nodiscard]] uint32_t published() const { return published_.load(std::memory_order_acquire); }
  [[nodiscard]] uint32_t retired() const { return retired_.load(std::memory_order_relaxed); }
  [[nodiscard]] Request& at(uint32_t number) {
    UROCE_ASSERT(number - retired() < published() - retired());
    return *slot(memory_, stride_, number & mask_);
  }
  /// The oldest ones.
  void retire(uint32_t count = 1) {
    UROCE_ASSERT(count <= published() - retired());
    retired_.store(retired() + count, std::memory_order_release);  // pairs with look_for_room()
  }

  /// Requests outstanding; any thread, a moment's truth.
  [[nodiscard]] uint32_t outstanding() const {
    return published() - retired_.load(std::memory_order_acquire);
  }

 private:
  /// The posting thread knows of no free slot: whether the poller has retired some since it looked last.
  bool look_for_room();
  static constexpr size_t kAttachmentAlignment = 8;

  static Request* slot(std::byte* memory, size_t stride, uint32_t index) {
    return std::launder(reinterpret_cast<Request*>(memory + index * stride));
  }

  // The poller's. Where the slots are it knows for itself, for the other side writes to what lies beside.
  std::byte* const memory_;
  const size_t stride_;
  const uint32_t mask_;
  std::atomic<uint32_t> retired_{0};
  // The posting thread's.
  [[no_unique_address]] const Ring ring_;  // with what follows it fills the line
  std::atomic<uint32_t> published_{0};
  uint32_t reserved_ = 0;
  uint32_t retired_seen_ = 0;  // by the posting thread, which looks only when it has to
};

using SendQueue = WorkQueue<SendRequest>;
using ReceiveQueue = WorkQueue<ReceiveRequest>;

extern template class WorkQueue<SendRequest>;
extern template class WorkQueue<ReceiveRequest>;

}  // namespace uroce::queue
