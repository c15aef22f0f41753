#pragma once

#include <array>
#include <cstdint>

#include "choices.h"
#include "cm_target.h"

namespace uroce::fuzz {

/// All hosts that talk to a CmTarget. They know what it has told them, and say what they like: mostly of a
/// connection that there is, with its right numbers, but any message at any moment.
class CmPeer {
 public:
  CmPeer(Choices& choices, CmTarget*& target) : choices_(choices), target_(target) {}

  /// A message of the target's.
  void observe(const Gid& peer, const wire::CmMad& mad);

  void send();
  /// One of the last once more.
  void send_again();
  void flood();

 private:
  /// A connection, as far as its peer knows it.
  struct Connection {
    Gid peer;
    wire::CommId target;
    wire::CommId own;
    QpNumber target_qp;
    uint64_t request = 0;     // the transaction of the REQ or SIDR_REQ
    uint64_t disconnect = 0;  // that of the target's last message that began an exchange
  };
  struct Datagram {
    Gid peer;
    std::array<std::byte, wire::kMadBytes> bytes;
  };

  [[nodiscard]] Connection any_connection();
  [[nodiscard]] wire::CmMessage any_message(const Connection& connection);
  [[nodiscard]] wire::CmReq any_req(const Gid& peer);
  /// Mostly that of the exchange which the message is part of.
  [[nodiscard]] uint64_t any_transaction(const Connection& connection, const wire::CmMessage& message);
  void send(const Gid& peer, uint64_t transaction, const wire::CmMessage& message);

  Choices& choices_;
  CmTarget*& target_;
  uint32_t next_own_ = 1;
  std::array<Connection, 24> connections_{};
  size_t connections_seen_ = 0;
  std::array<Datagram, 16> sent_{};
  size_t sent_count_ = 0;
};

}  // namespace uroce::fuzz
