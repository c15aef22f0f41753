#pragma once

#include <array>
#include <atomic>
#include <bitset>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/values/time.h"
#include "nvmf/format/status.h"
#include "nvmf/format/transport_capabilities.h"
#include "nvmf/subsystem/async_events.h"
#include "nvmf/subsystem/error_log.h"
#include "nvmf/subsystem/feature_values.h"
#include "nvmf/subsystem/registers.h"

namespace uroce::nvmf {

class Subsystem;

using HostId = std::array<uint8_t, 16>;

/// How a host and a subsystem are associated: made by Connect on an admin queue, gone with its last queue.
/// Any thread, if not said otherwise.
class Controller {
 public:
  static constexpr uint16_t kAsyncEventsMax = 4;
  static constexpr uint16_t kAbortsMax = 4;
  /// A host that does not enable its controller, or leaves it disabled, is given up.
  static constexpr Duration kDisabledMax = seconds(120);
  /// The idle time after which a discovery controller without keep alive ends: its host has gone without a
  /// word.
  static constexpr uint32_t kDiscoveryIdleMaxMs = 120'000;
  static constexpr Duration kWatchInterval = milliseconds(100);
  /// In units of 100 ms (KAS): timeouts are rounded up to it.
  static constexpr uint32_t kKeepAliveGranularity = 10;

  struct Identity {
    uint16_t id = 0;
    std::string host_nqn;
    HostId host_id{};
    TransportCapabilities transport;
    uint32_t keep_alive_ms = 0;
    Instant now{};
  };
  /// What its subsystem allows for.
  struct Limits {
    bool discovery = false;  // of the discovery subsystem
    uint16_t io_queues = 0;
  };
  Controller(std::shared_ptr<Subsystem> subsystem, Identity identity, const Limits& limits);
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  [[nodiscard]] Subsystem& subsystem() const { return *subsystem_; }
  [[nodiscard]] const Identity& identity() const { return identity_; }
  [[nodiscard]] AsyncEvents& events() { return events_; }
  [[nodiscard]] ErrorLog& errors() { return errors_; }

  // The end of queues.
  /// Changes when all I/O queues of before are to end.
  [[nodiscard]] uint32_t io_life() const {
    return io_life_.load(std::memory_order_relaxed);  // one value by itself: no partner
  }
  [[nodiscard]] bool over() const {
    return over_.load(std::memory_order_relaxed);  // as io_life_
  }
  /// For good: its admin queue, its subsystem or its host's permission went away.
  void end();

  // I/O queues.
  /// `life` is set to what io_life() says as long as the queue may live.
  CommandStatus add_io_queue(uint16_t qid, uint32_t& life);
  void remove_io_queue(uint16_t qid);
  /// False: queues exist already.
  bool grant_io_queues(uint16_t count);
  [[nodiscard]] uint16_t granted_io_queues();
  /// What was written is on stable storage before a write ends.
  [[nodiscard]] bool writes_through() const {
    return writes_through_.load(std::memory_order_relaxed);  // as io_life_
  }

  // The thread of the admin queue.
  [[nodiscard]] std::optional<uint64_t> property(uint32_t offset, bool eight_bytes);
  CommandStatus configure(uint32_t configuration, Instant now);
  [[nodiscard]] bool ready();
  /// The host is there.
  void keep_alive(Instant now) { heard_at_ = now; }
  void set_keep_alive(uint32_t timeout_ms, Instant now);
  void set_writes_through(bool on) {
    writes_through_.store(on, std::memory_order_relaxed);  // as io_life_
  }
  Features& features() { return features_; }
  /// Ends the controller when its host has been silent or idle for too long.
  void watch(Instant now);

 private:
  void stop_io_queues();
  void reset_features(Instant now);

  const std::shared_ptr<Subsystem> subsystem_;
  const Identity identity_;
  const Limits limits_;
  AsyncEvents events_;
  ErrorLog errors_;
  std::atomic<uint32_t> io_life_{0};
  std::atomic<bool> over_{false};
  std::atomic<bool> writes_through_{false};

  std::mutex mutex_;  // of the next four
  Registers registers_;
  std::bitset<65536> io_queues_;
  uint32_t io_queue_count_ = 0;
  uint16_t granted_;

  Features features_;
  Instant watched_at_{};
  Instant heard_at_;
  Instant disabled_at_;
};

}  // namespace uroce::nvmf
