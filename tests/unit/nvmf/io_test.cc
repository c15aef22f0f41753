// Commands of an I/O queue, one by one: what they do, what they refuse, and what the device is asked for.
#include <array>
#include <numeric>

#include "disks.h"

namespace uroce::nvmf {
namespace {

using namespace testing_disks;

class Io : public Disks {
 protected:
  static constexpr uint32_t kBlocks = 256;

  Bytes stored(uint64_t block, uint32_t blocks) const {
    const auto from = disk->bytes.begin() + static_cast<std::ptrdiff_t>(block * disk->block_bytes);
    return {from, from + static_cast<std::ptrdiff_t>(blocks * disk->block_bytes)};
  }

  std::shared_ptr<DeviceScript> disk = add(1);
  Host host{target};
  HostQueue& io = host.io();
};

TEST_F(Io, WriteThenRead) {
  const Bytes data = pattern(40 * 512, 3);
  EXPECT_TRUE(io.run(command::blocks(command::kWrite, 1, 7, 40), data).ok());
  EXPECT_EQ(stored(7, 40), data);
  const Answer answer = io.run(command::blocks(command::kRead, 1, 7, 40));
  EXPECT_TRUE(answer.ok());
  EXPECT_EQ(answer.data, data);
  EXPECT_EQ(disk->seen[0].blocks, 40u);
  EXPECT_EQ(disk->seen[0].block, 7u);
  EXPECT_FALSE(disk->seen[0].force_unit_access);
}

TEST_F(Io, BlocksOf4096) {
  const auto big = add(2, {.block_bytes = 4096, .blocks = 64});
  const Bytes data = pattern(3 * 4096, 9);
  EXPECT_TRUE(io.run(command::blocks(command::kWrite, 2, 61, 3), data).ok());
  EXPECT_EQ(io.run(command::blocks(command::kRead, 2, 61, 3)).data, data);
  EXPECT_EQ(io.run(command::blocks(command::kRead, 2, 62, 3)).code, StatusCode::kLbaOutOfRange);
  EXPECT_EQ(big->seen.size(), 2u);
}

TEST_F(Io, EachNamespaceIsCounted) {
  const auto other = add(2, {.block_bytes = 4096, .blocks = 64});
  EXPECT_TRUE(io.run(command::blocks(command::kWrite, 1, 7, 40), pattern(40 * 512, 3)).ok());
  EXPECT_TRUE(io.run(command::blocks(command::kRead, 2, 0, 3)).ok());
  EXPECT_TRUE(io.run(command::blocks(command::kRead, 2, 0, 1)).ok());
  EXPECT_FALSE(io.run(command::blocks(command::kRead, 2, 62, 3)).ok());
  EXPECT_FALSE(io.run(command::blocks(command::kRead, 3, 0, 1)).ok()) << "of no namespace";
  EXPECT_TRUE(io.run(command::make(command::kFlush, 1)).ok()) << "neither a read nor a write";
  const auto reports = target.report();
  ASSERT_EQ(reports.size(), 2u);
  const auto counts = [&](size_t i) { return reports[i].totals.counts; };
  EXPECT_EQ(reports[0].nqn, kSubsystem);
  EXPECT_EQ(reports[1].nsid, 2u);
  // Reads, writes, bytes of both, errors.
  EXPECT_EQ(counts(0), (std::array<uint64_t, kNamespaceCounters>{0, 1, 0, 40 * 512, 0}));
  EXPECT_EQ(counts(1), (std::array<uint64_t, kNamespaceCounters>{2, 0, 4 * 4096, 0, 1}));
}

TEST_F(Io, CountsOutliveTheQueue) {
  EXPECT_TRUE(io.run(command::blocks(command::kRead, 1, 0, 8)).ok());
  ASSERT_TRUE(io.drain());
  EXPECT_EQ(target.report()[0].totals.of(NamespaceCounter::kReads), 1u);
}

TEST_F(Io, OneOfSixteenCommandsIsMeasuredFromReceiptToOutcome) {
  for (int i = 0; i < 17; ++i) {
    disk->hold = true;
    const uint16_t cid = io.send(command::blocks(command::kRead, 1, 0, 1));
    io.now = io.now + microseconds(5);
    disk->hold = false;
    ASSERT_TRUE(io.answer(cid).has_value());
  }
  const NamespaceTotals totals = target.report()[0].totals;
  EXPECT_EQ(std::accumulate(totals.reads.buckets.begin(), totals.reads.buckets.end(), uint64_t{0}), 2u);
  EXPECT_EQ(totals.reads.sum_ns, 10'000u);
  EXPECT_EQ(totals.writes.sum_ns, 0u);
}

TEST_F(Io, ReadOfMemoryIsInPlace) {
  const auto memory = add(2, {.in_memory = true});
  const Bytes data = pattern(8 * 512, 5);
  EXPECT_TRUE(io.run(command::blocks(command::kWrite, 2, 16, 8), data).ok());
  io.keep_unreleased(true);
  const Answer answer = io.run(command::blocks(command::kRead, 2, 16, 8));
  EXPECT_EQ(answer.data, data);
  EXPECT_EQ(memory->count(Operation::kRead), 0u);
  EXPECT_EQ(memory->count(Operation::kWrite), 1u);
  // As long as the transport sends from there, the memory stays.
  ASSERT_TRUE(target.remove_namespace(kSubsystem, 2).ok());
  io.poll();
  EXPECT_EQ(target.collect(), 1u);
  EXPECT_FALSE(memory->destroyed);
  io.release_kept();
  io.poll();
  EXPECT_EQ(target.collect(), 0u);
  EXPECT_TRUE(memory->destroyed);
}

TEST_F(Io, ForceUnitAccess) {
  Command write = command::blocks(command::kWrite, 1, 0, 1);
  write.dword12 |= command::kForceUnitAccess;
  Command zeroes = command::blocks(command::kWriteZeroes, 1, 0, 1);
  zeroes.dword12 |= command::kForceUnitAccess;
  EXPECT_TRUE(io.run(write, pattern(512, 1)).ok());
  EXPECT_TRUE(io.run(zeroes).ok());
  EXPECT_TRUE(disk->seen.at(0).force_unit_access);
  EXPECT_TRUE(disk->seen.at(1).force_unit_access);
  // A write cache that is switched off is written through.
  EXPECT_TRUE(host.admin.run(command::set_features(0x06, 0)).ok());
  EXPECT_TRUE(io.run(command::blocks(command::kWrite, 1, 0, 1), pattern(512, 1)).ok());
  EXPECT_TRUE(disk->seen.at(2).force_unit_access);
}

TEST_F(Io, Flush) {
  EXPECT_TRUE(io.run(command::make(command::kFlush, 1)).ok());
  EXPECT_EQ(disk->count(Operation::kFlush), 1u);
  const auto durable = add(2, {.volatile_cache = false});
  EXPECT_TRUE(io.run(command::make(command::kFlush, 2)).ok());
  EXPECT_EQ(durable->seen.size(), 0u);
  disk->outcomes = {Outcome::kMediaError};
  EXPECT_FALSE(io.run(command::make(command::kFlush, 1)).ok());
}

TEST_F(Io, FlushOfAllNamespaces) {
  const auto second = add(5), durable = add(6, {.volatile_cache = false});
  second->refusals = 2;
  EXPECT_TRUE(io.run(command::make(command::kFlush, kAllNamespaces)).ok());
  EXPECT_EQ(disk->count(Operation::kFlush), 1u);
  EXPECT_EQ(second->count(Operation::kFlush), 1u);
  EXPECT_EQ(durable->count(Operation::kFlush), 0u);
  second->outcomes = {Outcome::kNoSpace};
  EXPECT_EQ(io.run(command::make(command::kFlush, kAllNamespaces)).code, StatusCode::kCapacityExceeded);
  // It uses the namespace no longer than it is under way.
  ASSERT_TRUE(target.remove_namespace(kSubsystem, 5).ok());
  io.poll();
  EXPECT_EQ(target.collect(), 0u);
}

TEST_F(Io, WriteZeroes) {
  disk->bytes.assign(disk->bytes.size(), std::byte{7});
  Command deallocating = command::blocks(command::kWriteZeroes, 1, 8, 4);
  deallocating.dword12 |= 1u << 25;
  EXPECT_TRUE(io.run(command::blocks(command::kWriteZeroes, 1, 0, 4)).ok());
  EXPECT_TRUE(io.run(deallocating).ok());
  EXPECT_EQ(stored(0, 4), Bytes(4 * 512));
  EXPECT_EQ(stored(4, 4), Bytes(4 * 512, std::byte{7}));
  EXPECT_EQ(stored(8, 4), Bytes(4 * 512));
  EXPECT_EQ(disk->count(Operation::kWriteZeroes), 2u);
  // It is not bound by the size of a transfer.
  EXPECT_TRUE(io.run(command::blocks(command::kWriteZeroes, 1, 0, kBlocks)).ok());
}

Bytes ranges(std::vector<DatasetRange> list) {
  return bytes_of(list.data(), list.size() * sizeof(DatasetRange));
}

Command deallocate(uint32_t nsid, uint32_t count) {
  Command made = command::make(command::kDatasetManagement, nsid);
  made.dword10 = count - 1;
  made.dword11 = 1u << 2;
  return made;
}

TEST_F(Io, Deallocate) {
  disk->bytes.assign(disk->bytes.size(), std::byte{7});
  EXPECT_TRUE(io.run(deallocate(1, 3), ranges({{0, 2, 4}, {0, 0, 9}, {0, 1, 255}})).ok());
  EXPECT_EQ(disk->count(Operation::kDeallocate), 2u);
  EXPECT_EQ(stored(4, 2), Bytes(2 * 512));
  EXPECT_EQ(stored(6, 1), Bytes(512, std::byte{7}));
  EXPECT_EQ(stored(255, 1), Bytes(512));
  // 256 ranges are the most.
  EXPECT_TRUE(io.run(deallocate(1, 256), ranges(std::vector<DatasetRange>(256, {0, 1, 3}))).ok());
  EXPECT_EQ(disk->count(Operation::kDeallocate), 258u);
}

TEST_F(Io, DeallocateChecksAllRangesFirst) {
  expect_refused(io.run(deallocate(1, 2), ranges({{0, 2, 4}, {0, 2, 255}})), StatusCode::kLbaOutOfRange);
  expect_refused(io.run(deallocate(1, 1), ranges({{0, 0xFFFFFFFF, UINT64_MAX}})), StatusCode::kLbaOutOfRange);
  EXPECT_TRUE(disk->seen.empty());
  Command advice = deallocate(1, 1);
  advice.dword11 = 3;
  EXPECT_TRUE(io.run(advice, ranges({{0, 2, 4}})).ok());
  EXPECT_TRUE(disk->seen.empty());
}

TEST_F(Io, DeallocateThatFails) {
  disk->outcomes = {Outcome::kDone, Outcome::kMediaError};
  expect_refused(io.run(deallocate(1, 3), ranges({{0, 1, 1}, {0, 1, 2}, {0, 1, 3}})),
                 StatusCode::kWriteFault);
  EXPECT_EQ(disk->seen.size(), 2u);
}

TEST_F(Io, Verify) {
  EXPECT_TRUE(io.run(command::blocks(command::kVerify, 1, 3, 200)).ok());
  // Piece by piece, without data for the host.
  uint32_t blocks = 0;
  for (const auto& seen : disk->seen) {
    EXPECT_EQ(seen.operation, Operation::kRead);
    EXPECT_EQ(seen.block, 3u + blocks);
    blocks += seen.blocks;
  }
  EXPECT_EQ(blocks, 200u);
  EXPECT_GT(disk->seen.size(), 1u);
  disk->outcomes = {Outcome::kDone, Outcome::kMediaError};
  expect_refused(io.run(command::blocks(command::kVerify, 1, 3, 200)), StatusCode::kUnrecoveredReadError);
}

class Range : public Io, public ::testing::WithParamInterface<uint8_t> {};

TEST_P(Range, EndsWithTheNamespace) {
  const uint8_t opcode = GetParam();
  struct Row {
    uint64_t block;
    uint32_t blocks;
    bool inside;
  };
  constexpr Row kRows[] = {{0, 1, true},
                           {255, 1, true},
                           {254, 2, true},
                           {255, 2, false},
                           {256, 1, false},
                           {UINT64_MAX, 1, false},
                           {UINT64_MAX - 3, 8, false},
                           {1ull << 32, 1, false},
                           {0x100000000ull - 1, 2, false}};
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.block);
    disk->seen.clear();
    const Answer answer = io.run(command::blocks(opcode, 1, row.block, row.blocks), Bytes(row.blocks * 512));
    if (row.inside) {
      EXPECT_TRUE(answer.ok());
      continue;
    }
    expect_refused(answer, StatusCode::kLbaOutOfRange);
    EXPECT_TRUE(disk->seen.empty());
  }
}

TEST_P(Range, WrongFields) {
  const uint8_t opcode = GetParam();
  Command protection = command::blocks(opcode, 1, 0, 1);
  protection.dword12 |= 1u << 29;
  expect_refused(io.run(protection), StatusCode::kInvalidProtectionInfo);
  expect_refused(io.run(command::blocks(opcode, 0, 0, 1)), StatusCode::kInvalidNamespace);
  expect_refused(io.run(command::blocks(opcode, kNsidMax + 1, 0, 1)), StatusCode::kInvalidNamespace);
  expect_refused(io.run(command::blocks(opcode, kAllNamespaces, 0, 1)), StatusCode::kInvalidNamespace);
  expect_refused(io.run(command::blocks(opcode, 2, 0, 1)), StatusCode::kInvalidField);
  expect_refused(io.run(command::fused(command::blocks(opcode, 1, 0, 1), Command::Fuse::kReserved)),
                 StatusCode::kInvalidField);
  EXPECT_TRUE(disk->seen.empty());
}

TEST_P(Range, WaitsForTheDevice) {
  disk->refusals = 3;
  EXPECT_TRUE(io.run(command::blocks(GetParam(), 1, 5, 2), Bytes(2 * 512)).ok());
  EXPECT_EQ(disk->refusals, 0u);
  EXPECT_EQ(disk->seen.size(), 1u);
}

TEST_P(Range, NoQueueOfTheDevice) {
  const auto refusing = add(9);
  refusing->refuse_queues = true;
  const Answer answer = io.run(command::blocks(GetParam(), 9, 0, 1), Bytes(512));
  EXPECT_EQ(answer.code, StatusCode::kNamespaceNotReady);
  EXPECT_FALSE(answer.do_not_retry);
  refusing->refuse_queues = false;
  EXPECT_TRUE(io.run(command::blocks(GetParam(), 9, 0, 1), Bytes(512)).ok());
}

TEST_P(Range, Failures) {
  const uint8_t opcode = GetParam();
  const bool writes = opcode == command::kWrite || opcode == command::kWriteZeroes;
  const struct {
    Outcome outcome;
    StatusCode code;
  } kRows[] = {{Outcome::kMediaError, writes ? StatusCode::kWriteFault : StatusCode::kUnrecoveredReadError},
               {Outcome::kNoSpace, StatusCode::kCapacityExceeded},
               {Outcome::kGone, StatusCode::kNamespaceNotReady}};
  for (const auto& row : kRows) {
    disk->outcomes = {row.outcome};
    expect_refused(io.run(command::blocks(opcode, 1, 0, 1), Bytes(512)), row.code);
  }
  // It lives on.
  EXPECT_TRUE(io.run(command::blocks(opcode, 1, 0, 1), Bytes(512)).ok());
}

INSTANTIATE_TEST_SUITE_P(Commands, Range,
                         ::testing::Values(command::kRead, command::kWrite, command::kCompare,
                                           command::kWriteZeroes, command::kVerify));

TEST_F(Io, TransfersAreLimited) {
  Host small(target, {.transport = {.data_bytes_max = 8192}});
  HostQueue& queue = small.io();
  for (const uint8_t opcode : {command::kRead, command::kWrite, command::kCompare}) {
    EXPECT_TRUE(queue.run(command::blocks(opcode, 1, 0, 16), Bytes(8192)).ok());
    expect_refused(queue.run(command::blocks(opcode, 1, 0, 17)), StatusCode::kInvalidField);
  }
}

TEST_F(Io, DataNeedsAnSgl) {
  for (const uint8_t opcode : {command::kRead, command::kWrite, command::kDatasetManagement}) {
    Command prp = command::blocks(opcode, 1, 0, 1);
    prp.flags = 0;
    expect_refused(io.run(prp), StatusCode::kInvalidField);
  }
}

TEST_F(Io, ReadOnlyNamespaces) {
  const auto by_device = add(2, {.read_only = true});
  const auto by_option = add(3, {}, {.read_only = true});
  for (const uint32_t nsid : {2u, 3u}) {
    expect_refused(io.run(command::blocks(command::kWrite, nsid, 0, 1)),
                   StatusCode::kNamespaceWriteProtected);
    expect_refused(io.run(command::blocks(command::kWriteZeroes, nsid, 0, 1)),
                   StatusCode::kNamespaceWriteProtected);
    expect_refused(io.run(deallocate(nsid, 1), ranges({{0, 1, 0}})), StatusCode::kNamespaceWriteProtected);
    EXPECT_TRUE(io.run(command::blocks(command::kRead, nsid, 0, 1)).ok());
    EXPECT_TRUE(io.run(command::blocks(command::kVerify, nsid, 0, 1)).ok());
    EXPECT_TRUE(io.run(command::make(command::kFlush, nsid)).ok());
  }
  EXPECT_EQ(by_device->count(Operation::kWrite) + by_option->count(Operation::kWrite), 0u);
}

TEST_F(Io, TransportThatFails) {
  const uint16_t cid = io.receive(command::blocks(command::kWrite, 1, 0, 1));
  io.fail(cid, failed(StatusCode::kDataTransferError));
  const Answer answer = *io.answer(cid);
  EXPECT_EQ(answer.code, StatusCode::kDataTransferError);
  EXPECT_FALSE(answer.do_not_retry);
  EXPECT_TRUE(disk->seen.empty());
}

TEST_F(Io, EveryOtherOpcodeIsInvalid) {
  const auto known = [](uint32_t opcode) {
    for (const uint32_t one : {0x00u, 0x01u, 0x02u, 0x05u, 0x08u, 0x09u, 0x0Cu, 0x7Fu})
      if (one == opcode) return true;
    return false;
  };
  for (uint32_t opcode = 0; opcode < 256; ++opcode)
    if (!known(opcode))
      expect_refused(io.run(command::make(static_cast<uint8_t>(opcode), 1)), StatusCode::kInvalidOpcode);
  for (uint32_t type = 0; type < 256; ++type)
    if (type != 0 && type != 1 && type != 4 && type != 8)
      expect_refused(io.run(command::fabrics(static_cast<FabricsType>(type))), StatusCode::kInvalidOpcode);
}

TEST_F(Io, ManyAtOnce) {
  disk->hold = true;
  std::vector<uint16_t> sent;
  while (io.free_slots() > 0)
    sent.push_back(io.send(command::blocks(command::kWrite, 1, sent.size(), 1), pattern(512, 2)));
  EXPECT_TRUE(io.poll().empty());
  disk->hold = false;
  for (const uint16_t cid : sent) EXPECT_TRUE(io.answer(cid)->ok());
}

}  // namespace
}  // namespace uroce::nvmf
