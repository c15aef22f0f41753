#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "base/values/time.h"
#include "cm/connection.h"

namespace uroce::cm {

/// Requests (REQ, SIDR_REQ) for services without a listener yet. A server that has just taken one client
/// may be about to listen again, so such a request waits a moment before it is refused. Bounded in number,
/// also for each host; nothing is allocated after construction.
class EarlyRequests {
 public:
  static constexpr size_t kMax = 64;
  static constexpr size_t kOfOneHostMax = 16;

  struct Request {
    Address address{};
    Gid to;  // which of our addresses is meant
    CommId theirs;
    uint64_t transaction = 0;
    ServiceId service;
    Instant until{};
    std::array<std::byte, wire::kMadBytes> mad{};
  };

  EarlyRequests() { waiting_.reserve(kMax); }

  /// Whether the request of that number waits.
  [[nodiscard]] bool holds(const Gid& host, CommId theirs) const;
  /// False: there is no room.
  bool hold(const Request& request);
  /// The peer has given it up, by a REJ of that transaction.
  void cancel(const Gid& host, CommId theirs, uint64_t transaction);

  [[nodiscard]] bool empty() const { return waiting_.empty(); }
  [[nodiscard]] const std::vector<Request>& waiting() const { return waiting_; }
  /// The request at that place of waiting().
  Request take(size_t place);
  void clear() { waiting_.clear(); }
  /// When the first of them has waited long enough; kNever: there is none.
  [[nodiscard]] Instant deadline() const { return waiting_.empty() ? kNever : waiting_.front().until; }

 private:
  std::vector<Request> waiting_;  // in the order in which they came, each for the same time
};

}  // namespace uroce::cm
