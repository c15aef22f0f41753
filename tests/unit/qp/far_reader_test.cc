// Frames for a reader that shares no cache with us are streamed to memory; they are the same byte by byte.
#include "base/values/random.h"
#include "qp/connection/frame_writer.h"
#include "tests/unit/copy/fault_catcher.h"
#include "tests/unit/copy/vanishing_memory.h"
#include "tests/unit/qp/fixture.h"

namespace uroce::qp::testing {
namespace {

using queue::CompletionStatus;
using queue::SendOperation;

constexpr uint32_t kLongMtu = 4096;

void see_that_it_is_far(port::TxBatch& tx) {
  tx.reader() = port::ReaderDistance([](std::byte*) { return nanoseconds(200); });
  std::byte line{};
  for (int i = 0; i < 10'000 && !tx.reader().is_far(); ++i) tx.reader().observe(&line);
  ASSERT_TRUE(tx.reader().is_far());
}

class FarReader : public QueuePairTest {
 protected:
  FarReader() { attributes.path_mtu = PathMtu::k4096; }

  /// Requests of many lengths from many places, the same ones each time. Their frames are parsed and have the
  /// right ICRC.
  std::vector<Sent> send_some() {
    Random random(7);
    std::vector<Sent> all;
    for (int i = 0; i < 200; ++i) {
      const auto length = static_cast<uint32_t>(1 + random.below(4) * random.below(kLongMtu));
      post(random.chance(1, 2) ? SendOperation::kSend : SendOperation::kWrite, length, random.below(5000));
      for (Sent& frame : pump()) all.push_back(std::move(frame));
      receive_ack(all.back().psn());
    }
    return all;
  }
};

TEST_F(FarReader, EachFrameIsWhatItIsForANearOne) {
  bring_up();
  const auto near = send_some();
  see_that_it_is_far(tx);
  const auto far = send_some();
  ASSERT_EQ(far.size(), near.size());
  for (size_t i = 0; i < far.size(); ++i) {
    EXPECT_EQ(far[i].payload(), near[i].payload()) << i;
    EXPECT_EQ(far[i].operation(), near[i].operation()) << i;
    EXPECT_EQ(far[i].frame.size(), near[i].frame.size()) << i;
  }
}

TEST_F(FarReader, AFrameWhoseMemoryIsGoneIsNotSent) {
  const uroce::testing::FaultCatcher catcher;
  const uroce::testing::VanishingMemory gone(1);
  constexpr uint64_t kGoneIova = 0x90000000;
  const mem::RegionKeys gone_keys = register_region(gone.data(), gone.size(), kGoneIova, {});
  gone.vanish(uroce::testing::Vanishing::kNoAccess);
  bring_up();
  see_that_it_is_far(tx);
  queue::SendRequest& request = post(SendOperation::kWrite, kLongMtu);
  sends.segments(request)[0] = {kGoneIova, kLongMtu, gone_keys.lkey};
  EXPECT_TRUE(pump().empty());
  expect_failed_send(CompletionStatus::kLocalProtectionError);
}

TEST_F(FarReader, WhatStaysOnTheHostIsCopiedWithoutAnIcrc) {
  CapturingQueue host(false);
  port::TxBatch batch(host);
  see_that_it_is_far(batch);
  const wire::FrameTemplate path{wire::Path{}};
  for (uint32_t bytes = 1; bytes <= kLongMtu; bytes += bytes < 1500 ? 1 : 37) {
    port::TxFrame* const frame = batch.next();
    ASSERT_NE(frame, nullptr);
    frame->on_host = true;
    frame->has_icrc = true;
    const FrameBuilder making(
        *frame, path, {.opcode = wire::Opcode::make(wire::Service::kRc, wire::Operation::kSendOnly)}, bytes);
    const std::byte* const from = memory.data() + bytes % 61;
    ASSERT_TRUE(making.finish({.bytes = bytes, .data = from}, batch));
    ASSERT_EQ(memcmp(making.payload(), from, bytes), 0) << bytes;
    EXPECT_FALSE(frame->has_icrc);
  }
}

}  // namespace
}  // namespace uroce::qp::testing
