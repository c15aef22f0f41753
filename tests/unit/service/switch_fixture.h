#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "service/program_switch.h"
#include "tests/unit/net/outbox.h"
#include "tests/unit/service/program_memory.h"

namespace uroce::testing {

/// A switch with programs whose memories are in this process, and the batch that it puts frames into.
class SwitchTest : public ::testing::Test {
 protected:
  struct Member {
    ProgramMemory memory;
    std::unique_ptr<service::ClientSession> attachment;

    [[nodiscard]] QpNumber number(uint32_t offset) const { return {attachment->block().first + offset}; }
    [[nodiscard]] wire::CommId comm_id(uint32_t number) const {
      return {host::comm_prefix(attachment->block()) << (32 - host::kCommPrefixBits) | number};
    }
    [[nodiscard]] uint64_t drops(service::Drop reason) const {
      return attachment->counters().drops[static_cast<size_t>(reason)];
    }
  };

  SwitchTest();

  /// A program with the block of that number.
  std::unique_ptr<Member> make(uint32_t program, uint32_t block);

  bool deliver(const Bytes& frame, bool has_icrc = true);
  bool deliver_to_group(const Bytes& frame);
  size_t collect() { return switch_.collect(now_, outbox_.batch()); }

  /// The program listens at a port of TCP's space, at every address.
  void listen(Member& member, uint16_t port, const Gid& address = Gid::from_ipv4({}));

  Outbox outbox_{port::TxBatch::kFramesMax, 9300};
  Instant now_ = Instant{} + seconds(1);
  service::ProgramSwitch switch_;
};

}  // namespace uroce::testing
