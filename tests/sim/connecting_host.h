#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/values/random.h"
#include "engine/device/device.h"
#include "engine/poller/gsi.h"
#include "tests/sim/crowd_member.h"

namespace uroce::sim {

/// A host whose application connects queue pairs by the communication manager, as rdma_cm does: many at once.
/// On each connection the end that asked for it sends a message, the other answers with the same, one of them
/// hangs up, and when timewait has ended nothing is left of it.
class ConnectingHost final : public engine::ServicesUser {
 public:
  struct Totals {
    uint64_t answered = 0;        // at the end that asked for them
    uint64_t refused = 0;         // at the end that was asked
    uint64_t refusals_heard = 0;  // at the end that asked for them
    uint64_t asked_twice = 0;     // a REQ came again after its refusal
    uint64_t taken_back = 0;      // before they were answered
    uint64_t broken = 0;          // the network lost a message more often than it is sent again
    uint64_t before_rtu = 0;      // a message was

    Totals& operator+=(const Totals& other);
  };

  ConnectingHost(Host& host, uint64_t seed);

  void listen();
  /// `count` connections to `peer`.
  void connect(const Gid& peer, uint32_t count);

  /// What the application does, with what it was told and what has completed.
  void act();
  [[nodiscard]] const std::string& failure() const { return failure_; }
  /// Nothing is left of any connection.
  [[nodiscard]] bool over() const;
  [[nodiscard]] const Totals& totals() const { return totals_; }
  /// What is left that should not be, as a text.
  std::string close();

  // engine::ServicesUser, in turns of the device
  void on_event(const cm::Event& event) override;
  void on_resolved(uint64_t resolver, int error) override { resolved_.push_back({resolver, error}); }

 private:
  static constexpr size_t kMessageBytes = 64;

  enum class Stage : uint8_t { kConnecting, kConnected, kEnding, kOver };

  struct Connection {
    uint64_t number = 0;  // its place here
    bool asked = false;   // by us
    Stage stage = Stage::kConnecting;
    cm::CommId id;
    bool answered = false;
    Psn first_psn;
    engine::QpSlot* queue_pair = nullptr;  // null: none yet, or no more
    std::array<std::byte, kMessageBytes> message{};
    std::unique_ptr<RegisteredMemory> memory;  // what is sent, and what comes
  };
  struct Heard {
    cm::EventKind kind;
    cm::CommId id;
    uint64_t consumer;
    cm::Address address;
    wire::CmMad mad;
  };
  struct Resolved {
    uint64_t resolver;
    int error;
  };

  void fail(const std::string& what);
  template <typename Function>
  void manage(Function function);

  void ask(Connection& connection);
  void hear(const Heard& heard);
  void on_request(const Heard& heard);
  void on_reply(Connection& connection, const Heard& heard);
  void on_refusal(Connection& connection, const Heard& heard);
  void completed(const queue::Completion& completion);
  void message_came(Connection& connection);

  Connection& add();
  void make_queue_pair(Connection& connection);
  void make_ready(Connection& connection, const Gid& peer, QpNumber destination, Psn peers_psn);
  void send(Connection& connection);
  void hang_up(Connection& connection);
  void end(Connection& connection);

  Host& host_;
  Random random_;
  const DomainId domain_;
  const Gid address_;
  Gid peer_{};
  std::unique_ptr<queue::CompletionQueue> completions_;
  std::deque<Heard> heard_;
  std::deque<Resolved> resolved_;
  std::vector<std::unique_ptr<Connection>> connections_;
  Totals totals_;
  std::string failure_;
};

}  // namespace uroce::sim
