// What queue pairs have to say, on its way to the log.
#include "engine/poller/notice_ring.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/device/notice_lines.h"
#include "engine/platform/log.h"

namespace uroce::engine {
namespace {

qp::Notice failure_of(uint32_t queue_pair) {
  qp::Notice notice;
  notice.from = qp::State::kRts;
  notice.to = qp::State::kErr;
  notice.failure = qp::Failure::kRetryExceeded;
  notice.queue_pair = QpNumber{queue_pair};
  return notice;
}

TEST(NoticeRing, KeepsWhatIsWantedInOrder) {
  Parker parker;
  NoticeRing ring(parker, NoticeRing::Wanted::kFailures);
  EXPECT_FALSE(ring.pending());
  ring.note({});  // ordered
  EXPECT_FALSE(ring.pending());
  ring.note(failure_of(1));
  ring.note(failure_of(2));
  EXPECT_TRUE(ring.pending());
  std::vector<uint32_t> seen;
  EXPECT_EQ(ring.take_all([&](const qp::Notice& notice) { seen.push_back(notice.queue_pair.value); }), 0u);
  EXPECT_EQ(seen, (std::vector<uint32_t>{1, 2}));
  EXPECT_FALSE(ring.pending());
}

TEST(NoticeRing, OfEverythingAlsoWhatWasOrdered) {
  Parker parker;
  NoticeRing ring(parker, NoticeRing::Wanted::kEverything);
  ring.note({});
  EXPECT_TRUE(ring.pending());
}

TEST(NoticeRing, CountsWhatFindsNoRoomOnce) {
  Parker parker;
  NoticeRing ring(parker, NoticeRing::Wanted::kFailures);
  for (uint32_t i = 0; i < NoticeRing::kNoticesMax + 7; ++i) ring.note(failure_of(i));
  size_t seen = 0;
  EXPECT_EQ(ring.take_all([&](const qp::Notice&) { ++seen; }), 7u);
  EXPECT_EQ(seen, NoticeRing::kNoticesMax);
  EXPECT_EQ(ring.take_all([](const qp::Notice&) {}), 0u);
}

class NoticeLines : public ::testing::Test {
 protected:
  void TearDown() override { set_log_format(LogFormat::kText); }
  static std::string line_of(const qp::Notice& notice) {
    testing::internal::CaptureStderr();
    write_notice("uroce0", notice);
    return testing::internal::GetCapturedStderr();
  }

  qp::Notice notice = failure_of(0x12);
};

TEST_F(NoticeLines, NameTheQueuePairAndTheReason) {
  notice.peer = QpNumber{0x13};
  notice.address.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 192, 0, 2, 1};
  EXPECT_EQ(line_of(notice),
            "uroce: uroce0: queue pair 0x12: RTS to ERR: retries were used up, and the peer does not "
            "acknowledge, peer 192.0.2.1 queue pair 0x13\n");
}

TEST_F(NoticeLines, HaveNumbersAsFieldsOfJson) {
  set_log_format(LogFormat::kJson);
  notice.failure = qp::Failure::kAccessRefused;
  notice.key = MemoryKey{0xABCD12};
  const auto line = nlohmann::json::parse(line_of(notice));
  EXPECT_EQ(line["level"], "info");
  EXPECT_EQ(line["device"], "uroce0");
  EXPECT_EQ(line["queue_pair"], 0x12);
  EXPECT_EQ(line["key"], 0xABCD12);
  EXPECT_EQ(line["from"], "RTS");
  EXPECT_EQ(line["to"], "ERR");
  EXPECT_EQ(line["reason"], text_of(qp::Failure::kAccessRefused));
  EXPECT_FALSE(line.contains("peer_address"));
}

TEST_F(NoticeLines, NameTheCompletionQueueThatWasFull) {
  notice.failure = qp::Failure::kCompletionQueueFull;
  notice.completion_queue = 5;
  EXPECT_EQ(line_of(notice),
            "uroce: uroce0: queue pair 0x12: RTS to ERR: a completion queue was full (completion queue 5)\n");
  set_log_format(LogFormat::kJson);
  EXPECT_EQ(nlohmann::json::parse(line_of(notice))["completion_queue"], 5);
}

TEST_F(NoticeLines, OfAnInvalidationNameTheKey) {
  notice.kind = qp::Notice::Kind::kInvalidated;
  notice.failure = qp::Failure::kNone;
  notice.key = MemoryKey{0x99};
  EXPECT_EQ(line_of(notice), "uroce: uroce0: queue pair 0x12: invalidated key 0x00000099\n");
}

}  // namespace
}  // namespace uroce::engine
