#pragma once

#include <rdma/rdma_cma.h>

#include <array>
#include <memory>
#include <vector>

#include "nvmf/queue.h"
#include "nvmf/rdma_private_data.h"
#include "nvmf/rdma_queue_counters.h"
#include "nvmf/rdma_share.h"
#include "nvmf/rdma_slot.h"

namespace uroce::nvmf {

/// A connection: queue pair and commands of one admin or I/O queue. The control thread makes it, connects it,
/// breaks it off, and destroys it when it has come to rest. In between all calls are its poller's.
class RdmaQueue {
 public:
  struct Setup {
    RdmaQueueWish wish;
    uint8_t reads_max = 0;  // under way at once; at least 1
  };

  // Control thread. The id stays the caller's, and has a queue pair as long as the queue lives.
  static Result<std::unique_ptr<RdmaQueue>> make(RdmaShare& share, rdma_cm_id& id, const Setup& setup,
                                                 const RdmaOptions& options);
  ~RdmaQueue();
  RdmaQueue(const RdmaQueue&) = delete;
  RdmaQueue& operator=(const RdmaQueue&) = delete;
  [[nodiscard]] rdma_cm_id& id() const { return id_; }
  [[nodiscard]] uint32_t entries() const { return entries_; }
  [[nodiscard]] uint8_t reads_max() const { return reads_max_; }
  [[nodiscard]] const ibv_device_attr& device_attributes() const { return share_.device().attributes(); }

  // Any thread.
  [[nodiscard]] const RdmaQueueCounters& counters() const { return counters_; }
  [[nodiscard]] uint16_t qid() const { return qid_; }
  [[nodiscard]] uint32_t queue_pair_number() const { return id_.qp->qp_num; }

  // Its poller, from here on.
  void start(Target& target);
  void received(const ibv_wc& completion, Instant now);
  void read_ended(RdmaSlot& slot, bool successful, Instant now);
  void sent(RdmaSlot& slot, bool successful);
  /// It has the buffer that it waited for.
  void served(RdmaSlot& slot, Instant now);
  /// Hands commands on and posts what is to be posted. False: there was nothing to do.
  bool turn(Instant now);

  /// The connection is to be broken off: the target says so, or something failed. Stays true.
  [[nodiscard]] bool wants_end() const { return failed_ || (ending_ && sending_.empty() && nothing_waits()); }
  /// Block requests are under way, so there may be something to do any moment.
  [[nodiscard]] bool executes() const { return qid_ != 0 && executing_ != 0; }

  // The end. The queue pair is in the error state; `connected`: it once was in another than INIT.
  void broken(bool connected, Instant now);
  [[nodiscard]] bool is_broken() const { return broken_; }
  /// All its completions of sends are seen.
  void sends_drained() { sends_drained_ = true; }
  /// It takes nothing from the shared receive queue any more.
  void last_receive() { last_receive_ = true; }
  /// Whether it has come to rest, and is the control thread's again. To be asked when the completion queue
  /// was polled after all that was told above: nothing of the queue may be left in it.
  bool try_retire();

 private:
  RdmaQueue(RdmaShare& share, rdma_cm_id& id, const Setup& setup)
      : share_(share),
        id_(id),
        qid_(setup.wish.qid),
        entries_(setup.wish.entries),
        reads_max_(setup.reads_max) {}
  Status make_queue_pair();
  Status make_slots();
  [[nodiscard]] RdmaReceives& receives() const { return own_receives_ ? *own_receives_ : *share_.receives(); }

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
  bool post();
  size_t chain_reads(size_t at);
  size_t chain_sends(size_t at);
  size_t chain_answer(RdmaSlot& slot, size_t at);
  void post_chain(size_t count);
  void completed_through(uint64_t position);
  void free(RdmaSlot& slot);
  [[nodiscard]] uint32_t room() const { return send_entries_ - static_cast<uint32_t>(posted_ - done_); }
  [[nodiscard]] bool nothing_waits() const { return waits_for_send_.empty(); }
  void drop_what_is_ours();

  RdmaShare& share_;
  rdma_cm_id& id_;
  const uint16_t qid_;
  const uint32_t entries_;
  const uint8_t reads_max_;
  uint32_t send_entries_ = 0;  // work requests that the send queue has room for, without the drain's
  uint32_t reserved_completions_ = 0;
  std::unique_ptr<RdmaReceives> own_receives_;  // null: the share's
  std::unique_ptr<RdmaMemory> completions_;     // one for each slot
  std::array<std::span<std::byte>, 2> data_memory_;
  TransportFacts facts_;
  RdmaQueueCounters counters_;

  std::unique_ptr<Queue> target_queue_;
  std::vector<RdmaSlot> slots_;
  Fifo<RdmaSlot> free_;
  Fifo<RdmaCapsule> waits_for_slot_;
  Fifo<RdmaSlot> waits_for_read_;
  Fifo<RdmaSlot> waits_for_send_;
  Fifo<RdmaSlot> sending_;  // in the order of their positions
  uint32_t commands_ = 0;   // received, and not yet answered
  uint32_t executing_ = 0;
  uint32_t reading_ = 0;
  uint64_t posted_ = 0;  // work requests, ever
  uint64_t done_ = 0;    // of these, known to have ended
  bool worked_ = false;  // since the last turn

  bool ending_ = false;
  bool failed_ = false;
  bool broken_ = false;
  bool sends_drained_ = false;
  bool last_receive_ = false;
  bool at_rest_ = false;
};

}  // namespace uroce::nvmf
