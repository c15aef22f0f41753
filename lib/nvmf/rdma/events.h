#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/values/time.h"

namespace uroce::nvmf {

/// What happens to connections. Each is counted, and all but the first three are logged.
enum class RdmaEvent : uint8_t {
  kRequested,
  kAccepted,
  kEstablished,
  kConnected,       // Fabrics Connect succeeded
  kConnectRefused,  // Fabrics Connect did not
  // Requests that are refused.
  kRefusedFormat,      // private data that cannot be granted
  kRefusedQueues,      // the target has as many queues as it may
  kRefusedHostQueues,  // the host has
  kRefusedResources,   // no memory, or the device refused
  // Connections that end.
  kEndedByHost,      // the host disconnected, or rdma_cm lost it
  kEndedByTarget,    // Disconnect, keep alive, reset, a subsystem or a permission that went away
  kEndedStopping,    // the target stops
  kEndedDevice,      // the device reports an error, or is gone
  kEndedAccept,      // the request could not be accepted: the host gave up, or cannot be reached
  kEndedHandshake,   // the host accepted nothing in time
  kEndedNoConnect,   // no Fabrics Connect came in time
  kEndedReplaced,    // before Connect, by a newer request
  kEndedProtocol,    // a capsule that is too short, or more commands than were granted
  kEndedTransport,   // a work request failed
  kEndedStalled,     // the host did not acknowledge a response, or did not answer a READ, in time
  kEndedUnanswered,  // commands beyond what may wait, while the host acknowledges no response
  kCount
};
inline constexpr size_t kRdmaEvents = static_cast<size_t>(RdmaEvent::kCount);
using RdmaEventTotals = std::array<uint64_t, kRdmaEvents>;

/// For people.
std::string_view label(RdmaEvent event);

/// What an event is about, for people.
struct RdmaSubject {
  std::string host = {};               // its address
  std::optional<uint16_t> queue = {};  // of a connection
  std::string host_nqn = {};           // as the host says; empty: it has not
  std::string more = {};               // behind that
};

/// A line of the log, with what it is about as values. Printable text throughout.
struct RdmaLogLine {
  std::string_view text;  // all of it, without a line feed
  RdmaEvent event;
  const RdmaSubject& subject;
};

/// Counts events, and writes a line for each to a log: at most kLinesPerSecond in the long run, kBurst at
/// once, so that a flood fills no disk. How many lines were left out is said in the next one.
class RdmaEvents {
 public:
  using Log = std::function<void(const RdmaLogLine& line)>;
  static constexpr int64_t kLinesPerSecond = 10;
  static constexpr int64_t kBurst = 100;

  explicit RdmaEvents(Log log) : log_(std::move(log)) {}

  /// One thread.
  void record(RdmaEvent event, const RdmaSubject& subject, Instant now);
  /// Any thread.
  [[nodiscard]] RdmaEventTotals totals() const;

 private:
  [[nodiscard]] bool may_log(Instant now);

  const Log log_;
  std::array<std::atomic<uint64_t>, kRdmaEvents> counts_{};
  Instant filled_at_{};
  int64_t tokens_ns_ = kBurst * (seconds(1).ns / kLinesPerSecond);  // time that lines may still take
  uint64_t left_out_ = 0;
};

}  // namespace uroce::nvmf
