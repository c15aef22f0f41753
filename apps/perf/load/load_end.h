#pragma once

#include <atomic>
#include <optional>
#include <span>
#include <vector>

#include "apps/perf/load/load_memory.h"
#include "apps/perf/plan/schedule.h"

namespace uroce::perf {

/// What an end says that it has sent.
struct LoadClaims {
  uint64_t receives = 0;  // messages that took a receive
  uint64_t atomics = 0;
};

/// One end of a load, turned by one thread: queue pairs, their memory, and what is to be sent by them. Every
/// failure throws.
class LoadEnd {
 public:
  /// The device and the plan must outlive it. `load` is this end's part: its queue pairs, its rate.
  LoadEnd(client::VerbsDevice& device, const Plan& plan, const Load& load);

  [[nodiscard]] std::vector<Address> addresses() const;
  void connect(std::span<const Address> peers);
  [[nodiscard]] uint32_t path_mtu() const { return connections_.front().path_mtu(); }

  // Before a run, and after it when no thread turns this any more.
  void begin(const LoadRun& run);
  /// What came of it, after the memory was checked. `atomics`: that the peer performed here.
  LoadCounts finish(uint64_t atomics);
  /// What the peer must have met when this end has drained.
  [[nodiscard]] LoadClaims claims() const;

  /// Polls, and posts what is due. Hot.
  void turn();

  // From another thread.
  /// Nothing more is sent, and all that was has completed.
  /// Acquire: pairs with look_whether_drained().
  [[nodiscard]] bool drained() const { return drained_.load(std::memory_order_acquire); }
  // Relaxed: numbers alone.
  [[nodiscard]] uint64_t sent() const { return sent_.load(std::memory_order_relaxed); }
  [[nodiscard]] uint64_t received() const { return received_.load(std::memory_order_relaxed); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Outstanding {
    int64_t intended = 0;  // ns from the start of the run
    uint8_t part = 0;
  };
  struct Flow {  // of a queue pair
    uint64_t posted = 0;
    uint64_t completed = 0;
    uint64_t atomics = 0;
    uint32_t receives_used = 0;
  };

  void poll();
  void completed(uint32_t flow, uint32_t count, int64_t now);
  void note(const Outstanding& message, int64_t now);
  void send_due(int64_t now);
  void send_all(int64_t now);
  void post(uint32_t flow, uint32_t count, int64_t intended);
  void fill(ibv_send_wr& request, ibv_sge& segment, uint32_t flow, const MixPart& part);
  void post_receives(uint32_t flow, uint32_t count);
  void look_whether_drained();
  [[nodiscard]] int64_t now() const { return (Clock::now() - run_.start).count(); }
  [[nodiscard]] bool measured(int64_t at) const { return at >= begin_ && at < end_; }

  client::VerbsDevice& device_;
  Service service_;
  Load load_;
  bool has_atomics_;
  bool has_receives_;
  uint32_t batch_;  // messages of a post
  uint32_t receive_depth_;
  client::ProtectionDomain domain_;
  LoadMemory memory_;
  client::CompletionQueue completions_;
  std::vector<Connection> connections_;

  LoadRun run_;
  std::optional<Schedule> schedule_;
  std::vector<uint8_t> order_;  // of the mix
  size_t next_in_order_ = 0;
  int64_t begin_ = 0;  // of the measured time
  int64_t end_ = 0;
  bool sending_ = false;
  LoadCounts counts_;
  std::vector<Flow> flows_;
  std::vector<Outstanding> outstanding_;  // load_.depth of each queue pair
  std::vector<uint32_t> room_;            // a ring: queue pairs, each as often as it has room for a post
  uint64_t room_taken_ = 0;
  uint64_t room_given_ = 0;
  uint64_t receives_posted_ = 0;
  LoadClaims claims_;

  // Written by the thread that turns this.
  std::atomic<uint64_t> sent_ = 0;
  std::atomic<uint64_t> received_ = 0;
  std::atomic<bool> drained_ = false;
};

}  // namespace uroce::perf
