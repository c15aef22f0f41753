#pragma once

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/values/random.h"
#include "cm/agent.h"

namespace uroce::cm {

/// Two hosts whose agents exchange their datagrams over a link of the test's making, in virtual time. Each
/// host's consumer answers what it is told as rdma_cm does, and keeps what it was told.
class TwoAgents {
 public:
  struct Told {
    EventKind kind;
    CommId id;
    wire::CmMad mad;  // empty without
    Address address;  // of the connection
  };

  class Host final : public Consumer {
   public:
    Host(Gid its_address, const AgentOptions& options) : address(its_address), agent(options, *this) {}

    void on_event(const Event& event) override;

    /// How often each connection was told of an event.
    [[nodiscard]] size_t count(EventKind kind) const;
    [[nodiscard]] Address to(const Host& peer) const { return {.local = address, .remote = peer.address}; }

    const Gid address;
    Agent agent;
    std::vector<Told> told;
    /// What to do with requests and replies.
    bool answers = true;
    bool releases = true;  // once timewait has ended
  };

  /// What becomes of datagram number `n`, counted from 0 over both directions.
  enum class Fate : uint8_t { kDelivered, kLost, kDoubled, kLate };
  std::function<Fate(size_t n)> fate = [](size_t) { return Fate::kDelivered; };

  explicit TwoAgents(const AgentOptions& options = {
                         .connections_max = 64, .listeners_max = 4, .first_number = 0x5EED'0000});

  [[nodiscard]] wire::CmReq req(uint32_t qp = 100) const;
  [[nodiscard]] static wire::CmRep rep(uint32_t qp = 200);

  /// The client's, to the server's service.
  CommId connect(uint32_t qp = 100);

  /// Until nothing is under way and neither end waits, or `limit` has passed.
  void run(Duration limit = seconds(1000));
  /// Only what is there now, and no time passes.
  void deliver();

  [[nodiscard]] size_t datagrams() const { return datagrams_; }
  [[nodiscard]] const std::vector<std::string>& trace() const { return trace_; }
  /// What was sent last, of either host and whatever became of it.
  [[nodiscard]] const wire::CmMad& last_sent() const { return last_sent_; }

  static constexpr ServiceId kService{0x0106'1144};

  Instant now{};
  Host client;
  Host server;

 private:
  struct InFlight {
    Host* to;
    Address address;
    std::array<std::byte, wire::kMadBytes> bytes;
  };
  class Sink final : public MadSink {
   public:
    Sink(TwoAgents& world, Host& from) : world_(world), from_(from) {}
    Sent send(const Address& address, const wire::CmMad& mad) override;

   private:
    TwoAgents& world_;
    Host& from_;
  };

  void pump();
  bool arrive();

  size_t datagrams_ = 0;
  std::multimap<Instant, InFlight> in_flight_;  // by arrival
  std::vector<std::string> trace_;
  wire::CmMad last_sent_;
};

/// Finds out the peer's link address meanwhile.
class Reluctant final : public MadSink {
 public:
  Sent send(const Address&, const wire::CmMad&) override { return ++asked < 10 ? Sent::kLater : Sent::kYes; }
  int asked = 0;
};

}  // namespace uroce::cm
