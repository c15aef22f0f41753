#include <cstring>

#include "exported.h"

// Connections: which are refused, and how they end.
namespace uroce::testing {
namespace {

using nvmf::RdmaRefusal;
using nvmf::StatusCode;
using Connections = Exported;

std::vector<std::byte> private_data(const nvmf::RdmaRequestData& data, size_t length) {
  std::vector<std::byte> bytes(length);
  std::memcpy(bytes.data(), &data, std::min(length, sizeof(data)));
  return bytes;
}

/// The status with which a request is refused; nullopt: it is not.
std::optional<uint16_t> refusal_of(const RdmaHostQueue::Options& options) {
  try {
    const RdmaHostQueue queue(options);
  } catch (const RdmaRefused& refused) {
    EXPECT_EQ(refused.reason, 28);  // by the consumer
    EXPECT_TRUE(refused.status);
    return refused.status;
  }
  return std::nullopt;
}

/// A command that takes long enough to be under way when something happens, many times.
void send_reads(RdmaHostQueue& queue, uint32_t nsid, uint32_t bytes) {
  for (uint16_t cid = 0; cid < queue.slots() - 1; ++cid)
    queue.send(io(queue, cid % 2 == 0 ? command::kRead : command::kWrite, nsid, 0, bytes, cid));
}

TEST_F(Connections, WrongPrivateData_ExpectARefusalWithTheStatus) {
  nvmf::RdmaOptions options;
  options.qid_max = 4;
  open(options);
  const auto refused = [&](nvmf::RdmaRequestData data, uint8_t reads = 16) {
    RdmaHostQueue::Options wanted;
    wanted.private_data = private_data(data, sizeof(data));
    wanted.reads_answered = reads;
    return refusal_of(wanted);
  };
  EXPECT_EQ(refused({1, 0, 32, 31}), static_cast<uint16_t>(RdmaRefusal::kRecordFormat));
  EXPECT_EQ(refused({0, 5, 32, 31}), static_cast<uint16_t>(RdmaRefusal::kQid));
  EXPECT_EQ(refused({0, 1, 32, 0}), static_cast<uint16_t>(RdmaRefusal::kHostSendSize));
  EXPECT_EQ(refused({0, 1, 512, 128}), static_cast<uint16_t>(RdmaRefusal::kHostSendSize));
  EXPECT_EQ(refused({0, 1, 30, 31}), static_cast<uint16_t>(RdmaRefusal::kHostReceiveSize));
  EXPECT_EQ(refused({0, 1, 32, 31}, 0), static_cast<uint16_t>(RdmaRefusal::kInboundReads));
  EXPECT_EQ(refused({0, 1, 32, 31}), std::nullopt);
  const RdmaHostQueue queue({.entries = 17});
  EXPECT_EQ(queue.controller_receive_size(), 17);
}

TEST_F(Connections, MoreThanThereMayBe_ExpectARefusalUntilOneHasGone) {
  nvmf::RdmaOptions options;
  options.queues_max = 1;
  open(options);
  {
    RdmaSession session(host());
    EXPECT_EQ(refusal_of({}), static_cast<uint16_t>(RdmaRefusal::kNoResources));
  }
  // The connection's end is seen a little later.
  while (refusal_of({}) != std::nullopt) {
  }
}

TEST_F(Connections, AnotherQidThanConnectSays_ExpectInvalidParameters) {
  open();
  RdmaSession session(host());
  RdmaHostQueue queue({.qid = 2});
  const auto connected = session.run_connect(queue, 1, session.controller());
  ASSERT_TRUE(connected);
  EXPECT_EQ(code_of(*connected), StatusCode::kConnectInvalidParameters);
}

TEST_F(Connections, CapsuleShorterThanACommand_ExpectTheEndOfThisConnectionOnly) {
  open();
  RdmaSession session(host());
  RdmaHostQueue& wrong = session.connect_io(1);
  RdmaHostQueue& other = session.connect_io(2);
  wrong.send_bytes(0, std::vector<std::byte>(63));
  while (!wrong.has_ended()) {
    std::array<nvmf::Completion, 1> none;
    EXPECT_EQ(wrong.poll(none), 0u);
  }
  EXPECT_TRUE(other.run(io(other, command::kRead, kRam, 0, 4096)));
}

TEST_F(Connections, KeysThatAreNone_ExpectTheEndOfTheConnectionAndALaterOne) {
  open();
  for (const uint8_t opcode : {command::kRead, command::kWrite}) {
    RdmaSession session(host());
    RdmaHostQueue& queue = session.connect_io(1);
    nvmf::Command command = io(queue, opcode, kRam, 0, 4096);
    command.sgl =
        RdmaHostQueue::keyed(reinterpret_cast<uintptr_t>(queue.memory(0).data()), 4096, queue.key() ^ 0x5500);
    EXPECT_EQ(queue.run(command), std::nullopt);
    RdmaHostQueue& next = session.connect_io(2);
    EXPECT_TRUE(next.run(io(next, opcode, kRam, 0, 4096)));
  }
}

TEST_F(Connections, EndedWithCommandsUnderWay_ExpectNothingLost) {
  for (const bool shared : {true, false}) {
    SCOPED_TRACE(shared ? "shared receives" : "receives of each queue");
    nvmf::RdmaOptions options;
    options.shared_receives = shared;
    options.large_buffers = 2;  // so that some wait for buffers, too
    options.shared_receive_entries = 256;
    open(options);
    // More often than there are receives in the shared queue: none of them stays away.
    for (int round = 0; round < 20; ++round) {
      RdmaSession session(host());
      RdmaHostQueue& queue = session.connect_io(1);
      send_reads(queue, kFile, 65536);
      // Some of them have been answered by then, or none.
      std::array<nvmf::Completion, 8> some;
      for (int polls = 0; polls < round * 50; ++polls) queue.poll(some);
      if (round % 2 == 0) queue.disconnect();
    }
    RdmaSession session(host());
    RdmaHostQueue& queue = session.connect_io(1);
    EXPECT_TRUE(queue.run(io(queue, command::kRead, kFile, 0, 65536)));
  }
}

TEST_F(Connections, TargetStopsWithCommandsUnderWay_ExpectHostsToSeeTheEnd) {
  open();
  RdmaSession session(host());
  RdmaHostQueue& queue = session.connect_io(1);
  send_reads(queue, kFile, 131072);
  transport->stop();
  while (!queue.has_ended() || !session.admin().has_ended()) {
    std::array<nvmf::Completion, 8> some;
    queue.poll(some);
    session.admin().poll(some);
  }
  EXPECT_TRUE(transport->report().empty());
}

TEST_F(Connections, ManyQueuesOverTwoPollers_ExpectEachToWork) {
  nvmf::RdmaOptions options;
  options.cores = {0, 0};
  open(options);
  RdmaSession::Options small = host(8);
  small.queue.slot_bytes = 4096;
  RdmaSession session(small);
  std::vector<RdmaHostQueue*> queues;
  for (uint16_t qid = 1; qid <= 40; ++qid) queues.push_back(&session.connect_io(qid));
  for (RdmaHostQueue* queue : queues) {
    const uint64_t block = 0;
    fill(queue->memory(0), 7);
    const auto written = queue->run(io(*queue, command::kWrite, kRam, block, 4096));
    ASSERT_TRUE(written);
    EXPECT_EQ(code_of(*written), StatusCode::kSuccess);
    EXPECT_TRUE(queue->run(io(*queue, command::kRead, kRam, block, 4096)));
    EXPECT_TRUE(is_filled(queue->memory(0), 7));
  }
  EXPECT_EQ(transport->report().size(), 41u);
}

}  // namespace
}  // namespace uroce::testing
