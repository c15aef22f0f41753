#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "exported.h"

// Commands over RDMA, each way that data can go.
namespace uroce::testing {
namespace {

using nvmf::StatusCode;
using Io = Exported;

TEST_F(Io, FirstCommands_ExpectIdentifyAndWhatWasWrittenToBeRead) {
  open();
  RdmaSession session(host());
  nvmf::Command identify = command::identify(nvmf::IdentifyCode::kController);
  identify.sgl = session.admin().host_memory(0, 4096);
  const auto identified = session.admin().run(identify);
  ASSERT_TRUE(identified);
  EXPECT_EQ(code_of(*identified), StatusCode::kSuccess);
  const std::string_view subsystem(reinterpret_cast<const char*>(session.admin().memory(0).data()) + 768);
  EXPECT_EQ(subsystem, kDisks);

  RdmaHostQueue& queue = session.connect_io(1);
  for (const uint32_t nsid : {kRam, kFile}) {
    for (const uint32_t bytes : {512u, 4096u, 65536u, 131072u}) {
      SCOPED_TRACE(::testing::Message() << "namespace " << nsid << ", " << bytes << " bytes");
      fill(queue.memory(0).first(bytes), bytes + nsid);
      const auto written = queue.run(io(queue, command::kWrite, nsid, 8, bytes));
      ASSERT_TRUE(written);
      EXPECT_EQ(code_of(*written), StatusCode::kSuccess);
      const auto compared = queue.run(io(queue, command::kCompare, nsid, 8, bytes));
      ASSERT_TRUE(compared);
      EXPECT_EQ(code_of(*compared), StatusCode::kSuccess);
      std::ranges::fill(queue.memory(0), std::byte{});
      const auto read = queue.run(io(queue, command::kRead, nsid, 8, bytes));
      ASSERT_TRUE(read);
      EXPECT_EQ(code_of(*read), StatusCode::kSuccess);
      EXPECT_TRUE(is_filled(queue.memory(0).first(bytes), bytes + nsid));
    }
  }
}

/// The code of a command that is answered.
StatusCode run(RdmaHostQueue& queue, const nvmf::Command& command, std::span<const std::byte> data = {}) {
  const auto completion = queue.run(command, data);
  EXPECT_TRUE(completion);
  return completion ? code_of(*completion) : StatusCode::kInternalError;
}

TEST_F(Io, DataInTheCapsule_ExpectItWritten) {
  nvmf::RdmaOptions options;
  options.in_capsule_bytes = 8192;
  for (const bool shared : {true, false}) {
    options.shared_receives = shared;
    open(options);
    RdmaSession session(host());
    RdmaHostQueue& queue = session.connect_io(1);
    std::vector<std::byte> data(8192);
    for (const uint32_t nsid : {kRam, kFile}) {
      for (const uint64_t offset : {0u, 16u, 4096u}) {
        SCOPED_TRACE(::testing::Message() << "namespace " << nsid << ", offset " << offset);
        fill(std::span(data).subspan(offset, 4096), nsid + static_cast<uint32_t>(offset));
        nvmf::Command write = io(queue, command::kWrite, nsid, 0, 4096);
        write.sgl = RdmaHostQueue::in_capsule(4096, offset);
        EXPECT_EQ(run(queue, write, data), StatusCode::kSuccess);
        EXPECT_EQ(run(queue, io(queue, command::kRead, nsid, 0, 4096)), StatusCode::kSuccess);
        EXPECT_TRUE(is_filled(queue.memory(0).first(4096), nsid + static_cast<uint32_t>(offset)));
      }
    }
  }
}

TEST_F(Io, WrongSgls_ExpectTheirStatusAndTheConnectionToStay) {
  open();
  RdmaSession session(host());
  RdmaHostQueue& queue = session.connect_io(1);
  const auto with = [&](uint8_t opcode, nvmf::SglDescriptor sgl) {
    nvmf::Command command = io(queue, opcode, kRam, 0, 4096);
    command.sgl = sgl;
    return run(queue, command);
  };
  nvmf::SglDescriptor segment = queue.host_memory(0, 32);
  segment.type_byte = 0x30;
  EXPECT_EQ(with(command::kWrite, segment), StatusCode::kSglDescriptorTypeInvalid);
  EXPECT_EQ(with(command::kRead, queue.host_memory(0, 4095)), StatusCode::kDataSglLengthInvalid);
  EXPECT_EQ(with(command::kWrite, RdmaHostQueue::in_capsule(4096)), StatusCode::kDataSglLengthInvalid);
  EXPECT_EQ(with(command::kWrite, RdmaHostQueue::in_capsule(4096, 1)), StatusCode::kSglOffsetInvalid);
  EXPECT_EQ(with(command::kRead, RdmaHostQueue::in_capsule(4096)), StatusCode::kSglDescriptorTypeInvalid);
  EXPECT_EQ(with(command::kRead, queue.host_memory(0, 8192)), StatusCode::kSuccess);
}

TEST_F(Io, MoreThanMdtsAndOutOfRange_ExpectRefusals) {
  open();
  RdmaSession session(host());
  RdmaHostQueue& queue = session.connect_io(1);
  EXPECT_EQ(run(queue, io(queue, command::kRead, kRam, 0, 131072)), StatusCode::kSuccess);
  EXPECT_EQ(run(queue, io(queue, command::kRead, kRam, 0, 131072 + 512)), StatusCode::kInvalidField);
  EXPECT_EQ(run(queue, io(queue, command::kRead, kRam, kBytes / 512, 512)), StatusCode::kLbaOutOfRange);
  EXPECT_EQ(run(queue, io(queue, command::kRead, 9, 0, 512)), StatusCode::kInvalidField);
}

TEST_F(Io, NoDataAtAll_ExpectSuccess) {
  open();
  RdmaSession session(host());
  RdmaHostQueue& queue = session.connect_io(1);
  for (const uint32_t nsid : {kNull, kRam, kFile}) {
    nvmf::Command flush = command::make(command::kFlush, nsid);
    flush.sgl = RdmaHostQueue::keyed(0, 0, 0);
    EXPECT_EQ(run(queue, flush), StatusCode::kSuccess);
  }
}

TEST_F(Io, KeyToBeInvalidated_ExpectItInvalidWithTheCompletion) {
  open();
  RdmaSession session(host());
  RdmaHostQueue& queue = session.connect_io(1);
  for (const uint8_t opcode : {command::kWrite, command::kRead}) {
    const uint32_t key = queue.bind_window(0, 4096);
    nvmf::Command command = io(queue, opcode, kRam, 0, 4096);
    // A window of type 2B has addresses like the region's.
    command.sgl = RdmaHostQueue::keyed(reinterpret_cast<uintptr_t>(queue.memory(0).data()), 4096, key, true);
    EXPECT_EQ(run(queue, command), StatusCode::kSuccess);
    ASSERT_FALSE(queue.invalidated().empty());
    EXPECT_EQ(queue.invalidated().back(), key);
  }
}

/// Keeps all slots but one busy with writes and reads of a block range for each slot, and checks what is
/// read. `registered`: each command has a key of its own, else all have that of the queue's region.
void churn(RdmaHostQueue& queue, uint32_t nsid, uint32_t bytes, int rounds, bool registered = false) {
  const auto slots = static_cast<uint16_t>(queue.slots() - 1);
  std::vector<int> done(slots);
  const auto send = [&](uint16_t cid) {
    const bool write = done[cid] % 2 == 0;
    if (write) {
      fill(queue.memory(cid).first(bytes), static_cast<uint32_t>(done[cid] + cid));
    } else {
      std::ranges::fill(queue.memory(cid).first(bytes), std::byte{});
    }
    nvmf::Command command =
        io(queue, write ? command::kWrite : command::kRead, nsid, cid * uint64_t{bytes / 512}, bytes, cid);
    if (registered) command.sgl = queue.registered_memory(cid, bytes);
    queue.send(command);
  };
  for (uint16_t cid = 0; cid < slots; ++cid) send(cid);
  int under_way = slots;
  std::vector<uint16_t> answered;
  while (under_way != 0) {
    std::erase_if(answered, [&](uint16_t cid) {
      if (!queue.is_acknowledged(cid)) return false;
      send(cid);
      return true;
    });
    std::array<nvmf::Completion, 16> came;
    const size_t count = queue.poll(came);
    ASSERT_FALSE(count == 0 && queue.has_ended());
    for (const nvmf::Completion& completion : std::span(came).first(count)) {
      const uint16_t cid = completion.cid;
      ASSERT_LT(cid, slots);
      EXPECT_EQ(code_of(completion), StatusCode::kSuccess);
      if (done[cid] % 2 == 1) {
        EXPECT_TRUE(is_filled(queue.memory(cid).first(bytes), static_cast<uint32_t>(done[cid] - 1 + cid)));
      }
      if (++done[cid] == rounds) {
        --under_way;
      } else {
        answered.push_back(cid);
      }
    }
  }
}

TEST_F(Io, FullQueues_ExpectEveryCommandAnsweredAndItsData) {
  for (const bool shared : {true, false}) {
    nvmf::RdmaOptions options;
    options.shared_receives = shared;
    open(options);
    RdmaSession session(host());
    RdmaHostQueue& queue = session.connect_io(1);
    for (const uint32_t nsid : {kRam, kFile}) {
      churn(queue, nsid, 4096, 40);
      churn(queue, nsid, 131072, 6);
    }
  }
}

TEST_F(Io, RegionsRegisteredForEachCommand_ExpectItsDataAndTheKeyInvalidWithTheResponse) {
  open();
  RdmaSession::Options options = host();
  options.queue.fast_registration = true;
  RdmaSession session(options);
  RdmaHostQueue& queue = session.connect_io(1);
  churn(queue, kRam, 4096, 40, true);
  churn(queue, kFile, 131072, 6, true);
  // A key that was invalidated is not good for another command.
  nvmf::Command command = io(queue, command::kRead, kRam, 0, 4096);
  command.sgl = queue.registered_memory(0, 4096);
  EXPECT_EQ(run(queue, command), StatusCode::kSuccess);
  EXPECT_FALSE(queue.run(command).has_value());
}

TEST_F(Io, KeyThatTheTargetDoesNotInvalidate_ExpectTheHostToInvalidateIt) {
  open();
  RdmaSession::Options options = host();
  options.queue.fast_registration = true;
  RdmaSession session(options);
  RdmaHostQueue& queue = session.connect_io(1);
  for (int i = 0; i < 3; ++i) {
    nvmf::Command command = io(queue, command::kRead, kRam, 0, 4096);
    command.sgl = queue.registered_memory(0, 4096);
    command.sgl.type_byte = 0x40;  // a key to be kept
    EXPECT_EQ(run(queue, command), StatusCode::kSuccess);
    for (std::array<nvmf::Completion, 1> none; !queue.is_acknowledged(0);) queue.poll(none);
  }
}

TEST_F(Io, FewBuffersAndOneReadAtOnce_ExpectCommandsToWaitAndNoneToFail) {
  nvmf::RdmaOptions options;
  options.small_buffers = 1;
  options.large_buffers = 1;
  open(options);
  RdmaSession::Options slow = host();
  slow.queue.reads_answered = 1;
  slow.flow_control = false;
  RdmaSession session(slow);
  RdmaHostQueue& queue = session.connect_io(1);
  churn(queue, kFile, 4096, 10);
  churn(queue, kRam, 65536, 6);
  uint64_t waits = 0;
  for (const auto& report : transport->report())
    waits += report.totals[static_cast<size_t>(nvmf::RdmaQueueCounter::kBufferWaits)];
  EXPECT_GT(waits, 0u);
}

}  // namespace
}  // namespace uroce::testing
