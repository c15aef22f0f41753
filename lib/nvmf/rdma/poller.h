#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/threads/idle_policy.h"
#include "nvmf/rdma/mailbox.h"
#include "nvmf/rdma/queue.h"

namespace uroce::nvmf {

/// What pollers tell the control thread. About one queue in this order, kRetired last.
struct RdmaReport {
  enum class Kind : uint8_t {
    kConnect,   // a Fabrics Connect was answered
    kWantsEnd,  // end it
    kQuiet,     // nothing is posted to its queue pair any more, which may be destroyed
    kRetired,   // it is the control thread's again
  };
  Kind kind;
  RdmaQueue::Number number = 0;
  RdmaEvent why = RdmaEvent::kCount;           // kWantsEnd
  ConnectOutcome outcome = {};                 // kConnect
  std::unique_ptr<RdmaQueue> queue = nullptr;  // kRetired
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
  /// The queue is the poller's until it comes back with RdmaReport::kRetired.
  void add(std::unique_ptr<RdmaQueue> queue) {
    ++queues_assigned;
    mailbox_.push({.kind = Message::Kind::kQueue, .queue = std::move(queue)});
  }
  // About a queue; nothing happens if the poller has none of that number (any more). See RdmaQueue for the
  // order. The queue pair is in the error state; its last receive is known; it is destroyed.
  void close(RdmaQueue::Number number) { push(Message::Kind::kClose, number); }
  void last_receive(RdmaQueue::Number number) { push(Message::Kind::kLastReceive, number); }
  void detach(RdmaQueue::Number number) { push(Message::Kind::kDetach, number); }
  uint32_t queues_assigned = 0;  // the control thread's count

  /// Without a thread of its own: always by the same one, or with a happens-before between two. True: there
  /// was something to do.
  bool turn();

 private:
  struct Message {
    enum class Kind : uint8_t { kShare, kQueue, kClose, kLastReceive, kDetach };
    Kind kind;
    RdmaShare* share = nullptr;
    std::unique_ptr<RdmaQueue> queue = nullptr;  // kQueue
    RdmaQueue::Number number = 0;                // of the others
  };
  struct Turned {
    std::unique_ptr<RdmaQueue> queue;
    bool end_reported = false;
    bool quiet_reported = false;
  };

  void push(Message::Kind kind, RdmaQueue::Number number) { mailbox_.push({.kind = kind, .number = number}); }
  void run();
  bool turn(Instant now);
  void take_messages(Instant now);
  void handle(Message& message, Instant now);
  [[nodiscard]] RdmaQueue* find(RdmaQueue::Number number) const;
  /// True: there were completions.
  bool poll(RdmaShare& share, Instant now);
  void complete(RdmaShare& share, const ibv_wc& completion, Instant now);
  void receive(RdmaShare& share, const ibv_wc& completion, Instant now);
  void serve_waiting(RdmaShare& share, Instant now);
  bool turn_queues(Instant now);
  void report(Turned& turned, Instant now);
  bool advance_end(Turned& turned, Instant now);
  [[nodiscard]] bool executes() const;
  void sleep(Duration duration);

  Target& target_;
  Instant (*const clock_)();
  IdlePolicy idle_policy_;
  RdmaMailbox<RdmaReport>& reports_;
  RdmaMailbox<Message> mailbox_;
  std::vector<RdmaShare*> shares_;
  std::vector<Turned> queues_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace uroce::nvmf
