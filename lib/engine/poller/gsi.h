#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/counters/counters.h"
#include "base/values/time.h"
#include "cm/agent.h"
#include "engine/poller/address_table.h"
#include "net/links.h"
#include "port/tx_batch.h"
#include "wire/frame.h"
#include "wire/packet.h"

namespace uroce::engine {

/// The user of a device's general services. Called in turns of poller 0; may call the services back, must
/// not block.
class ServicesUser : public cm::Consumer {
 public:
  /// What resolve() was asked for: 0, or why there is no way: EHOSTUNREACH (on no link of ours), ETIMEDOUT,
  /// ENOBUFS.
  virtual void on_resolved(uint64_t resolver, int error) = 0;

 protected:
  ~ServicesUser() = default;
};

/// Queue pair 1 of a device: brings the communication manager's datagrams to it and away. Poller 0's:
/// everything happens in its turns. What a stranger sends never makes a neighbour entry or a question to the
/// link: its answer goes to the neighbour if that is known, else back to the Ethernet address that it came
/// from.
class Gsi final : private cm::MadSink {
 public:
  static constexpr QpNumber kNumber{1};

  struct Options {
    MacAddress mac;
    const AddressTable& addresses;
    net::Links& links;
    wire::SourcePorts source_ports = wire::SourcePorts::kFlowLabel;
    /// Queue pair 1 of our addresses is no process's alone: what is sent to it there goes to the host's
    /// service, which knows the program that it is for.
    bool shared = false;
    cm::AgentOptions agent;
  };
  Gsi(const Options& options, ServicesUser& user)
      : options_(options), user_(user), agent_(options.agent, user) {}

  /// The communication manager's agent. pump() is due after its use, for it may have to send.
  [[nodiscard]] cm::Agent& agent() {
    deadline_ = {};
    return agent_;
  }

  /// Resolves `remote`, which an address of ours, `local`, wants to reach. `resolver` hears of it, also
  /// within this call; not later than at `deadline`.
  void resolve(const Gid& local, const Gid& remote, uint64_t resolver, Instant now, Instant deadline);
  /// `resolver` does not hear of it any more.
  void forget(uint64_t resolver);

  /// Receives a packet whose ICRC is right. Returns the counter of a drop, or none.
  std::optional<Counter> receive(const wire::Packet& packet, Instant now, port::TxBatch& batch);
  /// Sends what is due, as far as there is room.
  void pump(Instant now, port::TxBatch& batch);
  /// When pump() has something to do, at the earliest.
  [[nodiscard]] Instant deadline() const { return deadline_; }

 private:
  cm::Sent send(const cm::Address& address, const wire::CmMad& mad) override;
  struct Resolution {
    Gid local;
    Gid remote;
    uint64_t resolver;
    Instant deadline;
  };
  /// Looks the MAC of `remote` up, or begins to resolve it: 0, EINPROGRESS, or why there is no way.
  [[nodiscard]] int find_mac(const Gid& local, const Gid& remote, Instant now, MacAddress& mac);
  /// Finds the MAC without a question to the link where the message to be answered says the way.
  [[nodiscard]] int find_way(const cm::Address& address, MacAddress& mac);
  [[nodiscard]] bool is_ours(const cm::Address& address) const;
  void retry_resolutions(Instant now);
  void note_deadline(Instant now);
  [[nodiscard]] uint16_t vlan_of(const Gid& local) const;
  [[nodiscard]] wire::Path path_to(const cm::Address& address, MacAddress mac) const;

  const Options options_;
  ServicesUser& user_;
  cm::Agent agent_;
  std::vector<Resolution> resolutions_;  // under way
  Instant deadline_ = kNever;            // of the agent and the resolutions, after the last call
  Psn next_psn_;
  // Of the call that is under way.
  port::TxBatch* batch_ = nullptr;
  Instant now_{};
};

}  // namespace uroce::engine
