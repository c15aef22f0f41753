#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/counters/fault_counts.h"
#include "base/tables/block_code.h"
#include "base/tables/number_block.h"
#include "host/channel.h"
#include "host/connection_rows.h"
#include "host/own_memory.h"
#include "host/shared_memory.h"

namespace uroce::service {

/// Why a frame of a program, or one for it, went no further.
enum class Drop : uint8_t {
  kFull,           // the program does not take what it is sent
  kTooLong,        // for a frame of shared memory, or for the link
  kNotRoce,        // only RoCE may leave
  kMalformed,      // RoCE, and broken
  kSourceMac,      // not the device's
  kSourceAddress,  // none of the device's, or of another VLAN
  kSourceNumber,   // a queue pair number of another program
  kManagement,     // a datagram to queue pair 1 that is no message of the communication manager of its own
  kCount,
};
const char* label_of(Drop reason);

/// What the service has of a program to exchange frames with it: its numbers, the memory that the service
/// writes for it, its own memory, and the channel between the two. Belongs to the poller of the device as
/// long as the switch has it.
class ClientSession {
 public:
  struct Counters {
    uint64_t frames_from = 0;  // the program
    uint64_t bytes_from = 0;
    uint64_t frames_to = 0;
    uint64_t bytes_to = 0;
    std::array<uint64_t, static_cast<size_t>(Drop::kCount)> drops{};
  };

  /// `to_program` is of kServiceMemory, `from_program` of kProgramMemory.
  ClientSession(uint32_t program, NumberBlock block, host::Mapping to_program, host::Mapping from_program);
  ClientSession(const ClientSession&) = delete;
  ClientSession& operator=(const ClientSession&) = delete;

  /// A name of the program in this process.
  [[nodiscard]] uint32_t program() const { return program_; }
  [[nodiscard]] NumberBlock block() const { return block_; }
  [[nodiscard]] BlockCode code() const { return code_; }
  [[nodiscard]] bool owns(QpNumber number) const { return block_.contains(number); }

  /// A copy of the frame, or a drop. `turn`: of the poller; a program that sleeps is woken once in each.
  /// `sender`: the program of this host whose frame it is, if it is one's.
  void send(std::span<const std::byte> frame, bool has_icrc, BlockCode sender, uint64_t turn);

  [[nodiscard]] host::Channel& channel() { return channel_; }
  void drop(Drop reason) { ++counters_.drops[static_cast<size_t>(reason)]; }
  void count_received(size_t bytes) {
    ++counters_.frames_from;
    counters_.bytes_from += bytes;
  }
  [[nodiscard]] const Counters& counters() const { return counters_; }
  /// The program, of `user`, has its numbers until revoke(), also when this process has ended before.
  void grant(uid_t user);
  void revoke();
  /// How many the program says it has, of its numbers. Any thread.
  [[nodiscard]] uint32_t queue_pairs() const;
  /// How many frames its port has dropped for want of room, as the program says. Any thread.
  [[nodiscard]] uint64_t port_dropped() const;
  /// Connections of rdma_cm that the program has left behind; it does not run any more.
  [[nodiscard]] std::vector<host::OpenConnection> connections() const;
  /// What the program has counted of a fault, as far as it says.
  [[nodiscard]] std::array<uint64_t, static_cast<size_t>(FaultCount::kCount)> fault_counts(
      uint32_t fault) const;

 private:
  void wake() const;
  [[nodiscard]] const host::Usage& usage() const;

  const uint32_t program_;
  const NumberBlock block_;
  const BlockCode code_{BlockCode::of(block_)};
  host::Mapping to_program_;
  const host::Mapping from_program_;
  host::OwnMemory memory_;
  host::Channel channel_;
  uint64_t woken_in_ = 0;  // the last turn
  Counters counters_;
};

}  // namespace uroce::service
