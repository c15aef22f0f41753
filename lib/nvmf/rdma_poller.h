#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "nvmf/rdma_mailbox.h"
#include "nvmf/rdma_queue.h"

namespace uroce::nvmf {

/// What pollers tell the control thread.
struct RdmaReport {
  enum class Kind : uint8_t {
    kWantsEnd,  // break it off
    kRetired,   // it has come to rest, and is the control thread's again
  };
  Kind kind;
  RdmaQueue* queue;
};

/// Turns queues: it polls completions, hands commands on, and posts what is to be posted. On a thread of its
/// own, which sleeps after options.idle_us without work until something comes; or on the caller's.
class RdmaPoller {
 public:
  /// `core`: the thread stays there. `reports` is read by the control thread.
  RdmaPoller(Target& target, const RdmaOptions& options, std::optional<uint32_t> core,
             RdmaMailbox<RdmaReport>& reports);
  /// No queue is left.
  ~RdmaPoller();
  RdmaPoller(const RdmaPoller&) = delete;
  RdmaPoller& operator=(const RdmaPoller&) = delete;

  // Control thread.
  /// The share is polled until the thread ends.
  void add(RdmaShare& share) { mailbox_.push({.kind = Message::Kind::kShare, .share = &share}); }
  /// Its completions may come from now on.
  void add(RdmaQueue& queue) {
    ++queues_assigned;
    mailbox_.push({.kind = Message::Kind::kQueue, .queue = &queue});
  }
  void broken(RdmaQueue& queue, bool connected) {
    mailbox_.push({.kind = Message::Kind::kBroken, .queue = &queue, .connected = connected});
  }
  void last_receive(RdmaQueue& queue) {
    mailbox_.push({.kind = Message::Kind::kLastReceive, .queue = &queue});
  }
  uint32_t queues_assigned = 0;  // the control thread's count

  /// Without a thread of its own: always by the same one, or with a happens-before between two. True: there
  /// was something to do.
  bool turn();

 private:
  struct Message {
    enum class Kind : uint8_t { kShare, kQueue, kBroken, kLastReceive };
    Kind kind;
    RdmaShare* share = nullptr;
    RdmaQueue* queue = nullptr;
    bool connected = false;
  };
  struct Turned {
    RdmaQueue* queue;
    bool end_reported = false;
  };

  void run();
  bool turn(Instant now);
  void take_messages(Instant now);
  /// True: there were completions.
  bool poll(RdmaShare& share, Instant now);
  void complete(RdmaShare& share, const ibv_wc& completion, Instant now);
  void receive(RdmaShare& share, const ibv_wc& completion, Instant now);
  void serve_waiting(RdmaShare& share, Instant now);
  bool turn_queues(Instant now);
  void report(Turned& turned);
  void rest(Instant now);
  void sleep();

  Target& target_;
  Instant (*const clock_)();
  const Duration idle_;
  RdmaMailbox<RdmaReport>& reports_;
  RdmaMailbox<Message> mailbox_;
  std::vector<RdmaShare*> shares_;
  std::vector<Turned> queues_;
  Instant worked_at_{};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace uroce::nvmf
