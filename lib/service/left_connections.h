#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "base/tables/number_block.h"
#include "base/values/time.h"
#include "host/connection_rows.h"
#include "wire/cm_message.h"

namespace uroce::service {

/// Connections of rdma_cm that programs have left behind when they ended. Each peer is sent a DREQ, and two
/// more while it does not answer, as long as the numbers of the program rest. Programs take turns, with one
/// DREQ each, and all together send a bounded number a second. What a call costs grows with no program's
/// connections. Used in turns of the device's poller 0 only; no clock, no I/O.
class LeftConnections {
 public:
  /// The most connections of programs of one user, and of all users: the peers of more are not told, and find
  /// out by their retries.
  static constexpr size_t kOfUserMax = host::kConnectionRows;
  static constexpr size_t kMax = 4 * kOfUserMax;
  /// The time between two DREQs, whatever programs they are of: 32,768 connections take 0.7 s.
  static constexpr Duration kEach = microseconds(20);
  /// A pause lets so many DREQs go at once.
  static constexpr int64_t kBurst = 64;
  static constexpr int kRounds = 3;
  static constexpr Duration kRound = milliseconds(1'000);
  /// Connections are kept for so long from the program's end: its numbers rest a little longer.
  static constexpr Duration kKept = milliseconds(3'900);

  /// `numbers` were the program's, and are no other's before forget() or kKept; `connections` as
  /// host::read_connections() has them.
  void add(NumberBlock numbers, uid_t user, std::vector<host::OpenConnection> connections, Instant now);
  /// The numbers, or some of them, have a new owner.
  void forget(NumberBlock numbers);
  /// A message of the peer at `source`, which numbers the connection `remote`: it has answered, or has
  /// disconnected itself.
  void answered(wire::CommId local, wire::CommId remote, const Gid& source);

  [[nodiscard]] size_t size() const { return held_; }
  /// When next() is to be called again; kNever: there is nothing left.
  [[nodiscard]] Instant deadline() const;
  /// A connection whose peer is to be sent a DREQ now; then sent() is due. Null: there is none.
  [[nodiscard]] const host::OpenConnection* next(Instant now);
  void sent(Instant now);

 private:
  /// Connections that have been answered and are passed over by one call, at most.
  static constexpr size_t kPassedOverMax = 64;

  /// When a program is looked at; of those that are due at one time that one first which has waited longest.
  struct Turn {
    Instant at{};
    uint64_t order = 0;
    uint32_t program = 0;  // its first number
    [[nodiscard]] auto operator<=>(const Turn&) const = default;
  };
  struct ClientProcess {
    NumberBlock numbers;
    uid_t user = 0;
    Instant left{};
    Turn turn;
    int round = 0;
    size_t place = 0;                               // of the connection that is next in this round
    std::vector<host::OpenConnection> connections;  // in the order of their ids; `remote` 0: answered
  };
  using Programs = std::map<uint32_t, ClientProcess>;

  void erase(Programs::iterator program);
  void postpone(ClientProcess& program, Instant until);
  /// Whether the program's next connection, if it has any in this round, is to be told now.
  bool find_unanswered(ClientProcess& program, Instant now);

  Programs programs_;     // by their first number
  std::set<Turn> turns_;  // one of each program
  uint64_t last_turn_ = 0;
  std::map<uid_t, size_t> of_user_;  // how many connections
  size_t held_ = 0;                  // of all users
  ClientProcess* chosen_ = nullptr;  // by next()
  Instant full_at_{INT64_MIN / 2};
};

}  // namespace uroce::service
