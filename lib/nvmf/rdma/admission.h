#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/values/time.h"
#include "nvmf/rdma/address.h"
#include "nvmf/rdma/events.h"
#include "nvmf/rdma/options.h"

namespace uroce::nvmf {

/// Which connections there may be, and for how long without Fabrics Connect. Knows connections by number,
/// which grow with time, and hosts by address. One thread; time is an argument.
///
/// A connection is pending from the request until Fabrics Connect has succeeded, and stays so if Connect
/// named the discovery subsystem, which takes any host. A host is known as long as a connection of it is not
/// pending.
/// - Hosts that are not known have options.pending_max connections together and options.pending_per_host
///   each. A request beyond that is granted, and a pending connection ends for it: of those whose handshake
///   is open the oldest, for a handshake takes milliseconds, so what is oldest is hardly an honest one, and
///   no host is locked out by requests in its name. Only when there is none, the oldest one without Connect,
///   and last one of a discovery controller; both of the host that has most pending, for that host has
///   answered.
/// - A host has options.queues_per_host connections, all of them options.queues_max; a request beyond that is
///   refused.
/// - A request that the host does not complete within options.connect_s is given up, and so is a connection
///   without Connect; a known host has kKnownFactor times as long, as it may make all queues before it
///   connects the first.
class RdmaAdmission {
 public:
  using Number = uint64_t;
  static constexpr int64_t kKnownFactor = 4;

  explicit RdmaAdmission(const RdmaOptions& options);

  /// Why a request of this host is refused; nullopt: it may be granted.
  [[nodiscard]] std::optional<RdmaEvent> refusal(const RdmaAddress& host) const;
  /// The connection that has to end before another one of this host is added; nullopt: none.
  [[nodiscard]] std::optional<Number> to_replace(const RdmaAddress& host) const;

  void add(Number connection, const RdmaAddress& host, Instant now);
  void established(Number connection);
  /// Fabrics Connect succeeded.
  void connected(Number connection, bool discovery);
  /// The connection is about to end, and is neither late nor in the way any more. Still counts as a queue.
  void ending(Number connection);
  void remove(Number connection);

  struct Late {
    Number connection;
    RdmaEvent why;
  };
  /// The connections whose time is over.
  [[nodiscard]] std::vector<Late> late(Instant now) const;
  /// Time matters to some.
  [[nodiscard]] bool has_waiting() const;

 private:
  enum class Stage : uint8_t { kHandshake, kEstablished, kDiscovery, kConnected, kEnding };
  struct Connection {
    RdmaAddress host;
    Instant since;
    Stage stage = Stage::kHandshake;
    bool known = false;  // counted in Host::connected
  };
  struct Host {
    uint32_t queues = 0;
    uint32_t connected = 0;  // not pending
    uint32_t pending = 0;
  };

  [[nodiscard]] bool is_known(const RdmaAddress& host) const;
  [[nodiscard]] static bool is_pending(const Connection& connection) {
    return connection.stage <= Stage::kDiscovery;
  }
  /// Whether `one` gives way before `other`; of both the older one is `other`.
  [[nodiscard]] bool goes_before(const Connection& one, const Connection& other) const;
  void change_stage(Connection& connection, Stage stage);
  void forget_connected(Connection& connection);

  const uint32_t queues_max_;
  const uint32_t queues_per_host_;
  const uint32_t pending_max_;
  const uint32_t pending_per_host_;
  const Duration connect_max_;
  std::map<Number, Connection> connections_;
  std::map<RdmaAddress, Host> hosts_;
};

}  // namespace uroce::nvmf
