#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "apps/perf/ends/arrivals.h"
#include "apps/perf/plan/layout.h"
#include "apps/perf/plan/plan.h"

namespace uroce::perf {

/// One operation at one size, measured one way, on a queue pair of its own.
struct Round {
  Service service = Service::kRc;
  Operation operation = Operation::kWrite;
  Measure measure = Measure::kBandwidth;
  uint64_t size = 0;
  uint32_t depth = 1;
  uint32_t slots = 0;  // places in memory that messages take in turn; 0: one for each that is outstanding
  uint32_t receive_list = 0;  // receives posted by one call; 0: as many as a poll found

  [[nodiscard]] Layout layout() const {
    const uint32_t wanted = slots == 0 ? depth : std::min(slots, depth);
    return Layout::of(size, measure == Measure::kLatency ? 1 : wanted, lead_of(service));
  }
  [[nodiscard]] bool reliable() const { return is_reliable(service); }
  /// Both ends send, in turn.
  [[nodiscard]] bool ping_pong() const {
    return measure == Measure::kLatency && operation != Operation::kRead && !is_atomic(operation);
  }
};

/// Which end: the initiator posts the operations, the responder answers them.
enum class Role : uint8_t { kInitiator, kResponder };

/// A round goes through phases (one to warm up, one to measure), each with data of its own. Messages are
/// numbered from 0 on, throughout the round.
struct Phase {
  uint64_t seed = 0;
  uint64_t first = 0;  // number of its first message
};

/// The bytes of an atomic's message.
inline constexpr uint64_t kAtomicBytes = 8;

/// The memory of one end in a round: written before a phase, checked behind it, never during.
class RoundMemory {
 public:
  /// The areas of this end; they begin with the round's slots.
  RoundMemory(std::span<std::byte> source, std::span<std::byte> target, const Round& round, Role role);

  /// Sources get the data of this phase and end; targets, and the gaps between slots, get poison.
  void prepare(const Phase& phase);

  /// Throws Failure unless the target holds exactly what the phase's messages [first, end) carried, and
  /// poison wherever none of them belongs. Returns the bytes of messages compared.
  uint64_t verify(const Phase& phase, uint64_t end);

  /// verify() where messages may have been lost: this end got those of `arrivals`, whose receives were filled
  /// in turn, and nothing else is whole.
  uint64_t verify_arrived(const Phase& phase, uint64_t end, const Arrivals& arrivals);

  // Atomics: the source of the responder holds a word per slot, the number of the next message that goes
  // there, which each message moves on to the one after it; the target of the initiator gets what was there.

  // WRITE ping-pong: the last byte of a message tells its number, so that the target can watch for it.
  void mark_source(uint64_t message);
  [[nodiscard]] bool arrived(uint64_t message) const;

 private:
  static uint8_t mark_of(uint64_t message) { return static_cast<uint8_t>(message + 1); }
  [[nodiscard]] uint64_t seed_of(const Phase& phase, Role writer, uint32_t slot) const;
  [[nodiscard]] bool marked() const;
  [[nodiscard]] uint64_t next_of(uint64_t message, uint32_t slot) const;
  [[nodiscard]] uint64_t word(std::span<const std::byte> area, uint32_t slot) const;
  void verify_counter(uint64_t end, uint32_t slot) const;
  void verify_original(uint64_t end, uint32_t slot, bool used) const;
  void verify_slot(const Phase& phase, uint32_t slot, bool used);
  void expect_untouched(uint32_t slot) const;
  void expect_message(const Phase& phase, uint32_t slot, uint32_t source_slot) const;
  [[nodiscard]] std::string place(uint32_t slot, size_t byte) const;

  Round round_;
  Role role_;
  Layout layout_;
  std::span<std::byte> source_;
  std::span<std::byte> target_;
};

}  // namespace uroce::perf
