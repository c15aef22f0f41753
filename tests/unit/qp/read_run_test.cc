// READs of one packet that are alike are asked for, and answered, by a way of their own. Here all packets are
// compared with what is said of them by a model that knows no runs.
#include <deque>

#include "base/values/random.h"
#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {
namespace {

using queue::CompletionStatus;
using queue::SendOperation;
using wire::Operation;

class ReadRun : public QueuePairTest {
 protected:
  static constexpr uint8_t kReads = 16;  // at a time

  ReadRun() {
    attributes.timeout = 0;
    attributes.max_rd_atomic = attributes.max_dest_rd_atomic = kReads;
  }

  /// Few, so that many in a row are alike; some take two packets.
  static uint32_t some_length(Random& random) {
    constexpr std::array<uint32_t, 5> kLengths{8, 8, 61, kMtu, kMtu + 1};
    return kLengths[random.below(kLengths.size())];
  }
};

TEST_F(ReadRun, EachRequestIsWhatItWouldBeAlone) {
  bring_up();
  Random random(25);
  struct Asked {
    uint32_t psn;
    uint32_t length;
    uint64_t remote, local;
    bool signaled;
  };
  std::deque<Asked> posted;  // and not sent
  std::deque<Asked> sent;    // and not answered
  uint32_t next = kOurPsn.value();
  size_t signaled = 0;
  size_t completed = 0;
  uint64_t all = 0;
  for (int round = 0; round < 400; ++round) {
    const uint32_t length = some_length(random);
    for (uint64_t left = random.below(30); left > 0 && posted.size() < 200; --left) {
      const Asked asked{.psn = next,
                        .length = length,
                        .remote = kRemote + random.below(1 << 20),
                        .local = random.below(1000),
                        .signaled = random.chance(1, 4)};
      queue::SendRequest& request = post(SendOperation::kRead, length, asked.local);
      request.remote_address = asked.remote;
      request.signaled = asked.signaled;
      posted.push_back(asked);
      next += length > kMtu ? 2 : 1;
    }
    (void)pump_once(static_cast<uint32_t>(2 + random.below(30)));
    for (const Sent& frame : take_sent()) {
      ASSERT_FALSE(posted.empty());
      const Asked& asked = posted.front();
      EXPECT_EQ(frame.operation(), Operation::kReadRequest);
      EXPECT_EQ(frame.psn(), asked.psn);
      EXPECT_TRUE(frame.ack_request());
      EXPECT_EQ(frame.reth().address, asked.remote);
      EXPECT_EQ(frame.reth().rkey.value, kRkey);
      EXPECT_EQ(frame.reth().length, asked.length);
      EXPECT_TRUE(frame.payload().empty());
      sent.push_back(asked);
      posted.pop_front();
      ++all;
    }
    ASSERT_LE(sent.size(), kReads);
    for (uint64_t left = random.below(sent.size() + 1); left > 0; --left) {
      const Asked asked = sent.front();
      sent.pop_front();
      const Bytes data = pattern(asked.length, asked.psn);
      const bool one = asked.length <= kMtu;
      receive(one ? Operation::kReadResponseOnly : Operation::kReadResponseFirst, asked.psn,
              {data.begin(), data.begin() + std::min(asked.length, kMtu)});
      if (!one) receive(Operation::kReadResponseLast, asked.psn + 1, {data.begin() + kMtu, data.end()});
      EXPECT_EQ(memory_at(asked.local, asked.length), data);
      signaled += asked.signaled ? 1 : 0;
    }
    completed += send_completions().size();
    EXPECT_EQ(completed, signaled);
  }
  EXPECT_GT(all, 1000u);
}

TEST_F(ReadRun, AsManyAsTheLimitAreAskedForAtOnce) {
  bring_up();
  for (int i = 0; i < 40; ++i) post(SendOperation::kRead, 64);
  EXPECT_EQ(pump().size(), kReads);
  for (uint32_t i = 0; i < 3; ++i) receive(Operation::kReadResponseOnly, kOurPsn.value() + i, pattern(64));
  EXPECT_EQ(pump().size(), 3u);
  EXPECT_EQ(pump().size(), 0u);
}

TEST_F(ReadRun, OneThatMayNotBeStoredStopsItWhereItIs) {
  bring_up();
  for (int i = 0; i < 5; ++i) post(SendOperation::kRead, 64);
  queue::SendRequest& bad = post(SendOperation::kRead, 64);
  sends.segments(bad)[0].lkey = read_only_keys.lkey;
  post(SendOperation::kRead, 64);
  EXPECT_EQ(pump().size(), 5u);
  for (uint32_t i = 0; i < 5; ++i) receive(Operation::kReadResponseOnly, kOurPsn.value() + i, pattern(64));
  pump();
  const auto done = send_completions();
  ASSERT_EQ(done.size(), 7u);
  EXPECT_EQ(done[4].status, CompletionStatus::kSuccess);
  EXPECT_EQ(done[5].status, CompletionStatus::kLocalProtectionError);
  EXPECT_EQ(done[5].wr_id, bad.wr_id);
  EXPECT_EQ(done[6].status, CompletionStatus::kFlushed);
}

TEST_F(ReadRun, WhatIsMissingIsAskedForAgain) {
  bring_up();
  for (int i = 0; i < 8; ++i) post(SendOperation::kRead, 64, 64u * static_cast<uint32_t>(i));
  const auto first = pump();
  ASSERT_EQ(first.size(), 8u);
  receive_nak(wire::NakCode::kSequenceError, kOurPsn.value());
  const auto again = pump();
  ASSERT_FALSE(again.empty());
  for (const Sent& frame : again) {
    const size_t index = frame.psn() - kOurPsn.value();
    ASSERT_LT(index, first.size());
    EXPECT_EQ(frame.frame, first[index].frame);
  }
}

/// What the peer asks for in bursts.
TEST_F(ReadRun, EachResponseIsWhatItWouldBeAlone) {
  bring_up(State::kRtr);
  fill(0, pattern(5000, 3));
  Random random(7);
  struct Due {
    uint32_t psn;
    Operation operation;
    Bytes payload;
    uint32_t msn;
  };
  std::deque<Due> due;
  uint32_t psn = kPeerPsn.value();
  uint32_t msn = 0;
  uint64_t all = 0;
  for (int round = 0; round < 600; ++round) {
    const uint32_t length = some_length(random);
    commit_after_receive = random.chance(1, 2);
    for (uint64_t left = random.below(6); left > 0 && due.size() + 2 < kReads; --left) {
      const uint64_t offset = random.below(2000);
      if (random.chance(1, 6)) {
        receive_write(Operation::kWriteOnly, psn++, 4000, 30, pattern(30));
        ++msn;
      }
      receive_read(psn, offset, length);
      ++msn;
      const bool one = length <= kMtu;
      due.push_back({psn, one ? Operation::kReadResponseOnly : Operation::kReadResponseFirst,
                     memory_at(offset, std::min(length, kMtu)), msn});
      if (!one)
        due.push_back({psn + 1, Operation::kReadResponseLast, memory_at(offset + kMtu, length - kMtu), msn});
      psn += one ? 1 : 2;
    }
    (void)pump_once(static_cast<uint32_t>(2 + random.below(20)));
    for (const Sent& frame : take_sent()) {
      if (frame.operation() == Operation::kAcknowledge) continue;
      ASSERT_FALSE(due.empty());
      const Due& expected = due.front();
      EXPECT_EQ(frame.psn(), expected.psn);
      EXPECT_EQ(frame.operation(), expected.operation);
      EXPECT_EQ(frame.payload(), expected.payload);
      EXPECT_EQ(frame.aeth().msn, expected.msn);
      EXPECT_EQ(frame.aeth().value, wire::kNoCredits);
      EXPECT_FALSE(frame.ack_request());
      due.pop_front();
      ++all;
    }
  }
  EXPECT_GT(all, 1000u);
}

TEST_F(ReadRun, TheySeeTheWriteBeforeThem) {
  bring_up(State::kRtr);
  commit_after_receive = false;
  uint32_t psn = kPeerPsn.value();
  for (uint32_t round = 0; round < 20; ++round) {
    const Bytes written = pattern(200, round);
    receive_write(Operation::kWriteOnly, psn++, 40, 200, written);
    // Up to the end, which is stored last.
    for (uint32_t i = 0; i < 8; ++i) receive_read(psn + i, 109 + 10 * i, 61);
    const auto frames = pump();
    ASSERT_EQ(frames.size(), 8u);
    for (uint32_t i = 0; i < 8; ++i)
      EXPECT_EQ(frames[i].payload(), Bytes(written.begin() + 69 + 10 * i, written.begin() + 130 + 10 * i))
          << i;
    psn += 8;
  }
}

TEST_F(ReadRun, OneThatMayNotBeReadAnyMoreEndsIt) {
  std::vector<std::byte> other(4096);
  bring_up(State::kRtr);
  const mem::RegionKeys more = register_region(other.data(), other.size(), 0, mem::kRemoteRead);
  for (uint32_t i = 0; i < 4; ++i) receive_read(5000 + i, 64, 64);
  ASSERT_EQ(pump().size(), 4u);
  for (uint32_t i = 0; i < 6; ++i) {
    wire::Headers headers = from_peer(Operation::kReadRequest, 5004 + i);
    headers.reth = {i == 3 ? 0 : kIova, i == 3 ? more.rkey : keys.rkey, 64};
    receive(headers);
  }
  ASSERT_TRUE(regions.deregister(more.lkey));
  const auto frames = pump();
  ASSERT_EQ(frames.size(), 4u);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(frames[i].operation(), Operation::kReadResponseOnly);
  expect_nak(frames[3], wire::NakCode::kRemoteAccess, 5007);
}

}  // namespace
}  // namespace uroce::qp::testing
