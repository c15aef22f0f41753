#pragma once

#include "qp/connection/connection.h"
#include "qp/connection/local_memory.h"
#include "qp/responder/responder.h"

namespace uroce::qp {

/// Takes datagrams: each is a message of its own, from any sender that has the Q_Key. It lies in the receive
/// buffer behind 40 bytes for its IP header: that of IPv6, or 20 zero bytes and that of IPv4 (lib/README.md,
/// wire fact 9). What cannot be taken is dropped, and the receive work request serves the next one.
class UdResponder final : public Responder {
 public:
  explicit UdResponder(Connection& connection) : connection_(connection) {}

  void reset(Psn) override {}
  void receive(const wire::Packet& packet, Turn& turn) override;
  void lost(const copy::MessageMark& mark, Turn& turn) override;

 private:
  bool place(const wire::Packet& packet, Turn& turn);
  void fail(Turn& turn);

  Connection& connection_;
};

}  // namespace uroce::qp
