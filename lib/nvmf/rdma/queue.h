#pragma once

#include <rdma/rdma_cma.h>

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "nvmf/queue/queue.h"
#include "nvmf/rdma/events.h"
#include "nvmf/rdma/private_data.h"
#include "nvmf/rdma/queue_counters.h"
#include "nvmf/rdma/share.h"
#include "nvmf/rdma/slot.h"

namespace uroce::nvmf {

/// A connection: queue pair and commands of one admin or I/O queue.
///
/// Ownership. A queue has one owner at any time, which holds the only pointer to it, and changes hands in a
/// message that carries that pointer:
///
///   control thread: make() ──RdmaPoller::add()──▶ poller ──RdmaReport::kRetired──▶ control thread: destroyed
///
/// In between the control thread knows the queue by its number, which is never used again, and the poller
/// drops messages about a number that it has no queue of. So neither thread can reach what is the other's,
/// whatever events come, in whatever order.
///
/// The queue pair is the control thread's all the time, which makes it, connects it, moves it to the error
/// state and destroys it, and also is the only one to read events about it. The poller posts to it until it
/// says kQuiet. The queue pair ends before the queue: its destruction is what proves that no memory of the
/// queue is touched any more and that nothing more comes to the completion queue. The end, step by step:
///
///   poller              control thread
///   kWantsEnd      ──▶                          (or a CM event, an event of the device, a timeout)
///                  ◀──  error state, close()
///   posts no more;
///   with a shared receive queue, waits for
///                  ◀──  last_receive()          (kLastReceiveMax at most)
///   kQuiet         ──▶  destroys the queue pair
///                  ◀──  detach()
///   waits for block requests
///   kRetired       ──▶  destroys the queue
class RdmaQueue {
 public:
  using Number = uint64_t;
  /// A device reports the last receive of a shared receive queue as soon as the queue pair is in the error
  /// state; some do not if it never left INIT.
  static constexpr Duration kLastReceiveMax = milliseconds(500);
  /// A queue that the target ends sends its last responses in this time.
  static constexpr Duration kLastResponsesMax = milliseconds(500);
  /// A host waits for the response to Connect: it has no reason to send more commands than that.
  static constexpr uint32_t kCommandsBeforeConnect = 8;

  struct Setup {
    Number number = 0;
    RdmaAddress host;
    RdmaQueueRequest request;
    uint8_t reads_max = 0;  // under way at once; at least 1
  };

  // Control thread, before the queue is handed to its poller, and after it came back. The id stays the
  // caller's, and has a queue pair.
  static Result<std::unique_ptr<RdmaQueue>> make(RdmaShare& share, rdma_cm_id& id, const Setup& setup,
                                                 const RdmaOptions& options);
  ~RdmaQueue();
  RdmaQueue(const RdmaQueue&) = delete;
  RdmaQueue& operator=(const RdmaQueue&) = delete;
  [[nodiscard]] const std::shared_ptr<RdmaQueueCounters>& counters() const { return counters_; }

  [[nodiscard]] Number number() const { return number_; }

  // Its poller, from here on.
  void start(Target& target, Instant (*clock)());
  void received(const ibv_wc& completion, Instant now);
  void read_ended(RdmaSlot& slot, bool successful, Instant now);
  void sent(RdmaSlot& slot, bool successful);
  /// The slot has the buffer that it waited for.
  void served(RdmaSlot& slot, Instant now);
  /// Hands commands on and posts what is to be posted. False: there was nothing to do.
  bool turn(Instant now);
  [[nodiscard]] RdmaShare& share() const { return share_; }
  /// Block requests are under way, so there may be something to do any moment.
  [[nodiscard]] bool executes() const { return qid_ != 0 && executing_ != 0; }
  [[nodiscard]] const Queue& target_queue() const { return *target_queue_; }
  [[nodiscard]] Queue& target_queue() { return *target_queue_; }

  enum class Phase : uint8_t {
    kServing,
    kClosing,    // the queue pair is in the error state: nothing is posted any more
    kFlushing,   // its last receive is known; it may have completions in the completion queue
    kQuiet,      // they are handled: the queue pair may be destroyed
    kDetaching,  // it is destroyed; it may still have completions in the completion queue
    kDetached,   // only block requests may still be under way
    kRetired,    // nothing of it is in use, neither here nor in the target: it is the control thread's
  };
  [[nodiscard]] Phase phase() const { return phase_; }
  /// Why the connection is to be ended; nullopt: it is not.
  [[nodiscard]] std::optional<RdmaEvent> wants_end(Instant now) const;
  void close(Instant now);
  /// Nothing comes from the shared receive queue any more.
  void last_receive() { last_receive_ = true; }
  /// The queue pair is destroyed.
  void detach();
  /// Goes on with the end as far as it can; the phase that was reached.
  Phase advance_end(Instant now);

 private:
  RdmaQueue(RdmaShare& share, rdma_cm_id& id, const Setup& setup, const RdmaOptions& options);
  Status make_queue_pair();
  Status make_slots();
  [[nodiscard]] RdmaReceives& receives() const { return own_receives_ ? *own_receives_ : *share_.receives(); }
  /// The first reason stays.
  void end_for(RdmaEvent why) {
    if (!failure_) failure_ = why;
  }
  [[nodiscard]] bool may_wait_for_slot() const;
  void watch_host(Instant now);
  void drop_commands();
  void note_connect();

  // From the capsule to execute().
  void begin(RdmaCapsule& capsule, Instant now);
  void find_place(RdmaSlot& slot, Instant now);
  void bring_data(RdmaSlot& slot, Instant now);
  void execute(RdmaSlot& slot, Instant now);
  void fail(RdmaSlot& slot, CommandStatus status);
  void return_capsule(RdmaSlot& slot);

  // From poll() to the completion.
  size_t take_ended(Instant now);
  void ended(RdmaSlot& slot);
  bool post(Instant now);
  size_t chain_reads(size_t at, Instant now);
  size_t chain_sends(size_t at, Instant now);
  size_t chain_answer(RdmaSlot& slot, size_t at);
  void post_chain(size_t count);
  void completed_through(uint64_t position);
  void free(RdmaSlot& slot);
  [[nodiscard]] uint32_t room() const { return send_entries_ - static_cast<uint32_t>(posted_ - done_); }
  [[nodiscard]] bool is_serving() const { return phase_ == Phase::kServing; }

  RdmaShare& share_;
  rdma_cm_id& id_;
  const Number number_;
  const RdmaAddress host_;
  const uint16_t qid_;
  const uint32_t entries_;
  const uint8_t reads_max_;
  const Duration connect_max_;
  const Duration stall_max_;
  ibv_qp* queue_pair_ = nullptr;  // until quiet()
  uint32_t queue_pair_number_ = 0;
  uint32_t send_entries_ = 0;  // work requests that the send queue has room for
  uint32_t reserved_completions_ = 0;
  std::unique_ptr<RdmaReceives> own_receives_;  // null: the share's
  std::unique_ptr<RdmaMemory> completions_;     // one for each slot
  std::array<std::span<std::byte>, 2> data_memory_;
  TransportCapabilities facts_;
  const std::shared_ptr<RdmaQueueCounters> counters_ = std::make_shared<RdmaQueueCounters>();
  RdmaBudget* budget_ = &share_.pending_budget();
  bool connected_ = false;  // Fabrics Connect has succeeded
  bool holds_host_budget_ = false;

  std::unique_ptr<Queue> target_queue_;
  std::vector<RdmaSlot> slots_;
  IntrusiveQueue<RdmaSlot> free_;
  IntrusiveQueue<RdmaCapsule> waits_for_slot_;
  IntrusiveQueue<RdmaSlot> waits_for_read_;
  IntrusiveQueue<RdmaSlot> reads_under_way_;  // in the order of posting
  IntrusiveQueue<RdmaSlot> waits_for_send_;
  IntrusiveQueue<RdmaSlot> sending_;  // in the order of their positions
  uint32_t commands_ = 0;             // received, and not yet answered
  uint32_t commands_before_connect_ = 0;
  uint32_t executing_ = 0;
  uint32_t reading_ = 0;
  uint64_t posted_ = 0;  // work requests, ever
  uint64_t done_ = 0;    // of these, known to have ended
  bool worked_ = false;  // since the last turn

  Phase phase_ = Phase::kServing;
  std::optional<RdmaEvent> failure_;
  std::optional<Instant> target_ends_at_;  // since when the target wants the end
  Instant closed_at_{};
  RdmaShare::Mark mark_{};  // kFlushing, kDetaching
  bool last_receive_ = false;
};

}  // namespace uroce::nvmf
