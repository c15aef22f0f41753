#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "apps/decode/inspected.h"

namespace uroce::decode {

/// Connections that the connection manager sets up and ends, as far as its messages were captured.
class ManagedConnections {
 public:
  struct End {
    Gid gid{};
    QpNumber qp{};
    Psn psn{};
  };
  struct Established {
    End active;
    End passive;
    uint32_t mtu = 0;  // bytes; 0: the REQ names none
  };

  /// A packet with a message; adds what that breaks. Both ends, if a REP says the one that its REQ did not.
  std::optional<Established> receive(Inspected& packet);

 private:
  static constexpr size_t kConnectionsMax = 1u << 14;

  struct Connection {
    wire::CmReq req;
    uint64_t transaction = 0;
    Gid active{};
    Gid passive{};
    std::optional<wire::CmRep> rep;
    bool rejected = false;               // by the passive end
    std::optional<uint64_t> hanging_up;  // the DREQ's transaction
    Gid hangs_up{};
  };
  /// The active end, and its number.
  using Key = std::pair<Gid, wire::CommId>;

  std::optional<Established> on(const wire::CmReq& message, Inspected& packet);
  std::optional<Established> on(const wire::CmRep& message, Inspected& packet);
  std::optional<Established> on(const wire::CmRtu& message, Inspected& packet);
  std::optional<Established> on(const wire::CmRej& message, Inspected& packet);
  std::optional<Established> on(const wire::CmDreq& message, Inspected& packet);
  std::optional<Established> on(const wire::CmDrep& message, Inspected& packet);
  template <typename Other>
  std::optional<Established> on(const Other&, Inspected&) {
    return std::nullopt;
  }

  Connection* find(const Gid& active, wire::CommId number, const Gid& passive);
  /// Finds the connection of a message that either end may send.
  template <typename Message>
  Connection* find_either(const Message& message, const Inspected& packet);

  std::map<Key, Connection> connections_;
};

}  // namespace uroce::decode
