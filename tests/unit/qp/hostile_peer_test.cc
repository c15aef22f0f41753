#include <array>
#include <map>

#include "base/values/random.h"
#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {
namespace {

using queue::CompletionStatus;
using queue::SendOperation;
using wire::Operation;

/// A peer that sends anything that parses, close enough to what is expected to get past the first checks.
class HostilePeer : public QueuePairTest {
 protected:
  static constexpr uint32_t kSteps = 250;

  void send_anything(Random& random) {
    constexpr std::array kLikely = {Operation::kSendFirst,          Operation::kSendMiddle,
                                    Operation::kSendLast,           Operation::kSendOnly,
                                    Operation::kWriteFirst,         Operation::kWriteLast,
                                    Operation::kWriteOnly,          Operation::kWriteOnlyImm,
                                    Operation::kReadRequest,        Operation::kReadResponseFirst,
                                    Operation::kReadResponseOnly,   Operation::kReadResponseLast,
                                    Operation::kAcknowledge,        Operation::kAcknowledge,
                                    Operation::kAcknowledge,        Operation::kAtomicAcknowledge,
                                    Operation::kReadResponseMiddle, Operation::kSendOnlyInvalidate,
                                    Operation::kCompareSwap,        Operation::kFetchAdd,
                                    Operation::kAtomicWrite,        Operation::kFlush};
    const Operation operation = kLikely[random.below(kLikely.size())];
    const bool response = wire::opcode_row(wire::Opcode::make(wire::Service::kRc, operation)).response;
    const uint32_t base = response ? next_ours_ : next_peers_;
    const uint32_t psn = random.chance(1, 20) ? static_cast<uint32_t>(random.next())
                                              : base + static_cast<uint32_t>(random.below(5)) - 1;
    wire::Headers headers = from_peer(operation, psn);
    headers.bth.ack_request = random.chance(1, 2);
    headers.reth = {kIova + random.below(kMemory), random.chance(9, 10) ? keys.rkey : MemoryKey{0x1234},
                    static_cast<uint32_t>(random.chance(1, 10) ? random.next() : random.below(2000))};
    headers.atomic = {kIova + random.below(kMemory / 8) * 8 + (random.chance(1, 20) ? 1 : 0), keys.rkey,
                      random.below(10), random.below(10)};
    headers.feth = {random.chance(9, 10), random.chance(1, 10), random.chance(1, 4)};
    headers.aeth = {static_cast<wire::AethKind>(random.chance(3, 4) ? 0 : random.below(4)),
                    static_cast<uint8_t>(random.below(random.chance(1, 2) ? 4 : 32)),
                    static_cast<uint32_t>(random.below(1u << 24))};
    Bytes payload;
    const wire::PayloadRule rule = wire::opcode_row(headers.bth.opcode).payload;
    if (rule == wire::PayloadRule::kExactlyMtu) payload = pattern(kMtu);
    if (rule == wire::PayloadRule::kOneToMtu) payload = pattern(1 + random.below(kMtu));
    if (rule == wire::PayloadRule::kZeroToMtu) payload = pattern(random.below(kMtu + 1));
    if (rule == wire::PayloadRule::kEightBytes) payload = pattern(8);
    if (rule != wire::PayloadRule::kNone && rule != wire::PayloadRule::kEightBytes && random.chance(1, 30))
      payload = pattern(1 + random.below(4096));
    if (operation == Operation::kWriteOnly && random.chance(3, 4)) {
      headers.reth.length = static_cast<uint32_t>(payload.size());
    }
    receive(headers, payload);
    if (!response && psn == next_peers_) ++next_peers_;
  }

  void post_anything(Random& random) {
    constexpr std::array kLikely = {SendOperation::kSend,     SendOperation::kSendImm,
                                    SendOperation::kWrite,    SendOperation::kWriteImm,
                                    SendOperation::kRead,     SendOperation::kSendInvalidate,
                                    SendOperation::kFetchAdd, SendOperation::kAtomicWrite};
    // An invalidation is one of nothing, which fails.
    const SendOperation operation =
        random.chance(1, 1000) ? SendOperation::kLocalInvalidate : kLikely[random.below(kLikely.size())];
    const bool word = operation == SendOperation::kFetchAdd || operation == SendOperation::kAtomicWrite;
    post(operation, word ? 8 : static_cast<uint32_t>(random.below(1500)));
  }

  void act(Random& random) {
    switch (random.below(6)) {
      case 0:
        post_anything(random);
        ++posted_;
        break;
      case 1:
        post_receive(static_cast<uint32_t>(random.below(1500)));
        ++receives_posted_;
        break;
      case 2:
        if (queue_pair->deadline() != kNever && random.chance(1, 3)) expire();
        break;
      case 3:
        pump_once(8);
        for (const Sent& sent : take_sent()) {
          if (!sent.packet.row->response && random.chance(1, 2)) next_ours_ = sent.psn();
        }
        break;
      default:
        send_anything(random);
    }
  }

  uint32_t next_ours_ = kOurPsn.value();
  uint32_t next_peers_ = kPeerPsn.value();
  size_t posted_ = 0;
  size_t receives_posted_ = 0;
};

TEST_F(HostilePeer, CannotMakeAWorkRequestCompleteTwiceOrNever) {
  std::map<CompletionStatus, size_t> statuses;
  for (uint64_t seed = 1; seed <= 1200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    ASSERT_EQ(modify(State::kReset), 0);
    bring_up();
    next_ours_ = kOurPsn.value();
    next_peers_ = kPeerPsn.value();
    posted_ = receives_posted_ = 0;
    for (uint32_t step = 0; step < kSteps; ++step) act(random);
    pump();
    ASSERT_EQ(modify(State::kErr), 0);
    pump();
    const auto done = send_completions();
    EXPECT_EQ(done.size(), posted_);
    for (size_t i = 1; i < done.size(); ++i) EXPECT_EQ(done[i].wr_id, done[i - 1].wr_id + 1);
    for (const queue::Completion& completion : done) ++statuses[completion.status];
    EXPECT_EQ(receive_completions().size(), receives_posted_);
  }
  // The runs went beyond the first checks.
  for (const CompletionStatus status :
       {CompletionStatus::kSuccess, CompletionStatus::kFlushed, CompletionStatus::kRemoteAccessError,
        CompletionStatus::kLocalLengthError, CompletionStatus::kRetryExceeded}) {
    EXPECT_GT(statuses[status], 0u) << static_cast<int>(status);
  }
}

}  // namespace
}  // namespace uroce::qp::testing
