// Whatever one queue pair has to do, a turn of its poller is short, and the others' work is done in it, too.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "packets.h"
#include "stage.h"

namespace uroce::script {
namespace {

constexpr size_t kFramesPerTurn = 64;       // that are sent
constexpr size_t kFramesOfOne = 16;         // of them of one queue pair
constexpr size_t kFramesReceived = 32;      // in a turn
constexpr uint32_t kRegionBytes = 1 << 20;  // that a READ may be of

class Fairness : public ::testing::Test {
 protected:
  Fairness() { region("region m " + std::to_string(kRegionBytes) + " rights=local,read,write"); }

  static Line line(const std::string& text) { return Line({"fairness_test.cc", 0}, text); }

  void region(const std::string& text) {
    Line words = line(text);
    stage.memory().add(words);
  }

  /// Ready, and its timer sleeps.
  Actor& add_queue_pair(PathMtu mtu = PathMtu::k256) {
    const std::string name = std::to_string(stage.actors().size());
    Actor& actor = stage.add_queue_pair(
        line("qp"), name, {.type = qp::Type::kRc, .signal_all = true, .send_depth = 64, .receive_depth = 64});
    qp::Attributes& attributes = actor.attributes;
    attributes.path = Stage::path_to_peer(false);
    attributes.path_mtu = mtu;
    attributes.destination = actor.peer;
    attributes.rq_psn = Psn(1000);
    attributes.sq_psn = Psn(100);
    attributes.access = mem::kRemoteRead | mem::kRemoteWrite;
    attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 4;
    const auto step = [&](qp::State state, qp::AttributeMask mask) {
      attributes.state = state;
      ASSERT_EQ(stage.device().modify_queue_pair(*actor.queue_pair, attributes, mask | qp::kMaskState), 0);
    };
    using namespace qp;
    step(State::kInit, kMaskPkeyIndex | kMaskPort | kMaskAccessFlags);
    step(State::kRtr,
         kMaskAv | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn | kMaskMaxDestRdAtomic | kMaskMinRnrTimer);
    step(State::kRts, kMaskTimeout | kMaskRetryCount | kMaskRnrRetry | kMaskSqPsn | kMaskMaxRdAtomic);
    stage.settle();
    return actor;
  }

  void feed(const Actor& actor, const std::string& packet) {
    std::string text("< ");
    text += packet;
    Line words = line(text);
    for (Bytes& frame : frames_to(words, stage, actor)) stage.feed(std::move(frame));
  }
  void feed_read(const Actor& actor) {
    feed(actor, "READ_REQUEST psn=1000 va=m rkey=m length=" + std::to_string(kRegionBytes));
  }

  /// A WRITE.
  void post(const Actor& actor, uint32_t bytes) {
    queue::SendQueue& sends = actor.queue_pair->send_queue;
    queue::SendRequest& request = *sends.reserve();
    request = {};
    request.operation = queue::SendOperation::kWrite;
    request.length = bytes;
    request.segments = 1;
    Line words = line("m");
    sends.segments(request)[0] = {stage.memory().address(words, "m").value(), bytes,
                                  stage.memory().at(words, "m").keys.lkey};
    sends.publish();
    stage.device().ring_doorbell(*actor.queue_pair);
  }

  /// One turn; how many frames went to each peer.
  std::map<QpNumber, size_t> turn() {
    stage.turn();
    std::map<QpNumber, size_t> frames;
    EXPECT_LE(stage.sent.size(), kFramesPerTurn);
    for (; !stage.sent.empty(); stage.sent.pop_front()) {
      wire::Packet packet;
      EXPECT_EQ(wire::parse_frame(stage.sent.front().frame, packet).result, wire::ParseResult::kRoce);
      ++frames[packet.headers.bth.destination];
    }
    for (const auto& [peer, count] : frames) EXPECT_LE(count, kFramesOfOne);
    return frames;
  }

  Stage stage;
};

TEST_F(Fairness, ALongReadDoesNotHoldUpOthers) {
  const Actor& greedy = add_queue_pair();
  const Actor& modest = add_queue_pair();
  feed_read(greedy);
  EXPECT_EQ(turn()[greedy.peer], kFramesOfOne);
  for (int i = 0; i < 3; ++i) {
    feed_read(greedy);  // asked for again and again
    feed(modest, "WRITE_ONLY A psn=" + std::to_string(1000 + i));
    auto frames = turn();
    EXPECT_EQ(frames[modest.peer], 1u);
    EXPECT_EQ(frames[greedy.peer], kFramesOfOne);
  }
}

TEST_F(Fairness, LongReadsOfManyGoOnTogether) {
  std::map<QpNumber, size_t> frames;
  for (int i = 0; i < 10; ++i) frames[add_queue_pair().peer] = 0;
  for (const auto& [name, actor] : stage.actors()) feed_read(*actor);
  for (int i = 0; i < 100; ++i) {
    for (const auto& [peer, count] : turn()) frames[peer] += count;
  }
  const auto [least, most] = std::ranges::minmax_element(
      frames, [](const auto& one, const auto& other) { return one.second < other.second; });
  EXPECT_GT(least->second, 100 * kFramesPerTurn / 10 / 2);
  EXPECT_LE(most->second - least->second, kFramesOfOne);
}

TEST_F(Fairness, ALongMessageDoesNotHoldUpOthers) {
  const Actor& greedy = add_queue_pair();
  const Actor& modest = add_queue_pair();
  post(greedy, kRegionBytes);
  EXPECT_EQ(turn()[greedy.peer], kFramesOfOne);
  post(modest, 8);
  auto frames = turn();
  EXPECT_EQ(frames[modest.peer], 1u);
  EXPECT_EQ(frames[greedy.peer], kFramesOfOne);
}

/// Frames are not alike: beside others a queue pair has a turn of so many bytes.
TEST_F(Fairness, LongFramesTakeTurnsByBytes) {
  constexpr size_t kMany = 64;
  constexpr size_t kLongFramesOfOne = 4;
  const Actor& greedy = add_queue_pair(PathMtu::k4096);
  const Actor& modest = add_queue_pair(PathMtu::k4096);
  feed_read(greedy);
  EXPECT_EQ(turn()[greedy.peer], kFramesOfOne);
  for (size_t i = 0; i < kMany + 4; ++i) {
    feed_read(greedy);  // asked for again and again
    post(modest, 8);
    auto frames = turn();
    EXPECT_EQ(frames[modest.peer], 1u);
    if (i == 0) {
      EXPECT_EQ(frames[greedy.peer], kFramesOfOne) << "no other queue pair has sent yet";
    } else if (i < kLongFramesOfOne) {
      // It pays for the frames of the first turn, when their length was not known.
      EXPECT_LT(frames[greedy.peer], kLongFramesOfOne) << i;
    } else {
      // What a turn leaves of its bytes makes one frame more of a later one.
      EXPECT_GE(frames[greedy.peer], kLongFramesOfOne) << i;
      EXPECT_LE(frames[greedy.peer], kLongFramesOfOne + 1) << i;
    }
    feed(modest, "ACKNOWLEDGE psn=" + std::to_string(100 + i) + " ack");
  }
}

/// ACKs are no messages: data that come do not slow down those that go.
TEST_F(Fairness, AcksAreNotShortMessages) {
  const Actor& greedy = add_queue_pair(PathMtu::k4096);
  const Actor& modest = add_queue_pair(PathMtu::k4096);
  for (int i = 0; i < 200; ++i) {
    feed_read(greedy);
    feed(modest, "WRITE_ONLY A psn=" + std::to_string(1000 + i));
    auto frames = turn();
    EXPECT_EQ(frames[modest.peer], 1u);
    EXPECT_EQ(frames[greedy.peer], kFramesOfOne) << i;
  }
}

/// A turn receives only so many, whatever waits; what comes behind a flood comes after it, and no later.
TEST_F(Fairness, AFloodIsTakenInPieces) {
  constexpr size_t kFlood = 3'200;
  const Actor& flooded = add_queue_pair();
  const Actor& modest = add_queue_pair();
  for (size_t i = 0; i < kFlood; ++i) feed(flooded, "WRITE_ONLY psn=900 A");
  feed(modest, "WRITE_ONLY psn=1000 A");
  for (size_t turns = 1;; ++turns) {
    const uint64_t before = stage.counter(Counter::kRxFrames);
    const auto frames = turn();
    EXPECT_LE(stage.counter(Counter::kRxFrames) - before, kFramesReceived);
    if (frames.count(modest.peer) == 1) break;
    // Duplicates that come together are answered together.
    EXPECT_LE(frames.at(flooded.peer), 1u);
    ASSERT_LE(turns, kFlood / kFramesReceived + 1);
  }
}

}  // namespace
}  // namespace uroce::script
