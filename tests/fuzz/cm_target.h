#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "choices.h"
#include "cm/agent.h"

namespace uroce::fuzz {

/// How deep conversations came.
struct CmDepth {
  static constexpr size_t kEvents = 9;
  static constexpr size_t kMessages = std::variant_size_v<wire::CmMessage>;

  std::array<std::array<uint64_t, cm::kIncomingCount>, cm::kStateCount> met{};  // messages for a connection
  std::array<uint64_t, kEvents> told{};
  std::array<uint64_t, kMessages> sent{};
  cm::AgentCounters counters;

  void operator+=(const CmDepth& other);
};

/// An agent and a consumer that does what the input says, also while it is being told something. Checks what
/// must hold whatever peers send: an event fits what its connection has been told before and the state that
/// it is in, calls succeed in their states only, a datagram is answered once at most and an answer never, a
/// DREQ to what is being ended gets its DREP, and when time has passed there is nothing left.
class CmTarget final : private cm::Consumer, private cm::MadSink {
 public:
  static constexpr size_t kConnectionsMax = 12;
  static constexpr uint32_t kBacklog = 4;
  static constexpr uint32_t kFirstNumber = 0x100'0000;
  static constexpr wire::ServiceId kService{0x0106'1144};
  static Gid address() { return Gid::from_ipv4({10, 0, 0, 2}); }
  static Gid peer(uint32_t number) { return Gid::from_ipv4({10, 0, 0, static_cast<uint8_t>(10 + number)}); }
  static constexpr uint32_t kPeers = 3;

  using Observer = std::function<void(const Gid& peer, const wire::CmMad& mad)>;
  /// Both outlive it.
  CmTarget(Choices& choices, Observer observer);

  void receive(const Gid& from, std::span<const std::byte> mad);
  /// The consumer makes a call.
  void call();
  void advance(Duration by) { now_ = now_ + by; }
  /// With room for so many datagrams.
  void pump(size_t room = SIZE_MAX);
  void finish();
  [[nodiscard]] CmDepth depth() const;

 private:
  /// What the consumer knows of a connection.
  enum class Phase : uint8_t {
    kConnecting,
    kRequested,
    kReplied,   // by the peer
    kAnswered,  // by us
    kConnected,
    kEnding,
    kResolving,
    kServiceRequested,
    kOver,
  };
  static constexpr uint64_t kListener = 1;  // what the consumer calls it
  struct Known {
    Phase phase;
    uint64_t consumer;
  };

  /// Throws std::logic_error when it does not hold.
  static void require(bool holds, const char* what);

  void on_event(const cm::Event& event) override;
  cm::Sent send(const cm::Address& address, const wire::CmMad& mad) override;

  void listen();
  void note(const cm::Event& event);
  void react(cm::CommId id, cm::EventKind kind);
  struct Room {
    size_t connections = 0;
    uint64_t cut_short = 0;
  };
  [[nodiscard]] Room room() const;
  void check_room(const Room& before, bool got_one) const;
  void connect();
  void resolve();
  void call_for(cm::CommId id, uint32_t which);
  void release(cm::CommId id);
  [[nodiscard]] std::optional<Phase> phase_of(cm::CommId id) const;
  void set_phase(cm::CommId id, Phase phase);
  void check();
  void check_disconnected(const Gid& from, const wire::CmMad& dreq);
  void drain();

  Choices& choices_;
  Observer observer_;
  cm::Agent agent_;
  cm::ListenerId listener_;
  Instant now_{1};
  std::map<uint32_t, Known> known_;  // by number; not what was released
  uint64_t next_consumer_ = 100;

  size_t room_ = 0;
  bool fickle_ = false;  // link addresses are not there at times
  bool receiving_ = false;
  std::vector<std::pair<Gid, wire::CmMad>> sent_;  // in the call that is being made
  CmDepth depth_;
};

}  // namespace uroce::fuzz
