#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/values/identifiers.h"
#include "base/values/time.h"

namespace uroce::net {

/// When the addresses of ours on a link are to be asked for, announced and defended (RFC 5227 for IPv4,
/// duplicate address detection of RFC 4862 for IPv6). We use an address while we ask whether another has it:
/// what depends on it is not delayed.
class OwnAddresses {
 public:
  static constexpr Duration kDefendEvery = seconds(10);

  /// Another neighbour says that one of them is its own.
  struct Conflict {
    Gid address;
    MacAddress with;
    bool first = false;  // about this address
  };
  enum class Step : uint8_t { kProbe, kAnnounce };

  /// With `probe` it is asked for and announced from the next due() on.
  void add(const Gid& address, bool probe);
  void remove(const Gid& address);

  /// One that is due, with what is to be done about it; call done() when it was. Nullopt: none.
  struct Due {
    Gid address;
    Step step;
  };
  [[nodiscard]] std::optional<Due> due(Instant now) const;
  void done(const Due& due, Instant now);
  /// When something is due, at the earliest.
  [[nodiscard]] Instant deadline() const;

  /// `with` says that `address`, one of these, is its own; kept until take_conflict(). True when it is time
  /// to defend it.
  bool note_conflict(const Gid& address, MacAddress with, Instant now);
  std::optional<Conflict> take_conflict();

 private:
  struct Own {
    Gid address;
    uint8_t steps_done = 0;
    Instant due = kNever;
    Instant defended{INT64_MIN / 2};
    bool contested = false;
  };
  std::vector<Own> all_;
  std::optional<Conflict> conflict_;  // the last one
};

}  // namespace uroce::net
