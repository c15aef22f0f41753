#include "apps/dump/captured_frames.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>
#include <vector>

#include "host/shared_memory.h"

namespace uroce::dump {
namespace {

constexpr int64_t kBegin = 1'000'000'000'000;
constexpr int64_t kSecond = 1'000'000'000;

/// The memory of a program that captures, or says that it does: what is in its records is the test's choice.
class Capturing {
 public:
  explicit Capturing(uint32_t slots = 1024, uint32_t slot_bytes = 192, uint32_t pollers = 1)
      : layout_({.pollers = pollers, .slots = slots, .slot_bytes = slot_bytes}),
        memory_(std::move(*host::make_sealed_memory("uroce-capture", layout_.bytes()))),
        writer_(memory_.mapping.data(), layout_, 0) {
    new (memory_.mapping.data()) capture::RingPreamble(layout_.preamble());
  }
  [[nodiscard]] int descriptor() const { return memory_.descriptor.get(); }
  void put(int64_t time_ns, size_t bytes = 64) {
    const std::vector<std::byte> frame(bytes, std::byte{0x55});
    writer_.put({.time_ns = time_ns, .bytes = static_cast<uint32_t>(bytes)}, frame);
    writer_.publish();
  }
  void put_reason(uint64_t about, uint16_t reason) {
    writer_.put({.time_ns = kBegin, .about = about, .kind = capture::RecordKind::kReason, .reason = reason},
                {});
    writer_.publish();
  }
  void say_written(uint64_t count) {
    layout_.head(memory_.mapping.data(), 0)
        .written.store(count, std::memory_order_release);  // the reader's acquire
  }

 private:
  const capture::RingLayout layout_;
  host::SealedMemory memory_;
  capture::RingWriter writer_;
};

std::vector<int64_t> times_of(CapturedFrames& frames, int64_t now, bool all = false) {
  std::vector<int64_t> times;
  while (const auto frame = frames.take(now, all)) times.push_back(frame->record.time_ns - kBegin);
  return times;
}

TEST(CapturedFrames, OfTwoPrograms_ExpectThemInTheOrderOfTime) {
  Capturing a;
  Capturing b;
  CapturedFrames frames(kBegin);
  ASSERT_TRUE(frames.add(a.descriptor(), 0));
  ASSERT_TRUE(frames.add(b.descriptor(), 0));
  for (const int64_t at : {1, 4, 5}) a.put(kBegin + at);
  for (const int64_t at : {2, 3, 6}) b.put(kBegin + at);
  EXPECT_TRUE(frames.drain(kBegin + 10));
  EXPECT_EQ(times_of(frames, kBegin + 10), (std::vector<int64_t>{})) << "older ones may come";
  EXPECT_EQ(times_of(frames, kBegin + kSecond), (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_FALSE(frames.drain(kBegin + kSecond));
  EXPECT_EQ(frames.counts().received, 6u);
}

TEST(CapturedFrames, DatedAsNoFrameCanBe_ExpectTheTimeOfTheCapture) {
  Capturing liar;
  Capturing honest;
  CapturedFrames frames(kBegin);
  ASSERT_TRUE(frames.add(liar.descriptor(), 0));
  ASSERT_TRUE(frames.add(honest.descriptor(), 0));
  for (const int64_t time : {INT64_MIN, int64_t{0}, INT64_MAX, kBegin + 1}) liar.put(time);
  honest.put(kBegin + 2);
  frames.drain(kBegin + 10);
  const std::vector<int64_t> times = times_of(frames, kBegin + kSecond);
  ASSERT_EQ(times.size(), 5u) << "none is held for ever";
  EXPECT_TRUE(std::ranges::is_sorted(times));
  EXPECT_EQ(times[0], 0);
  EXPECT_EQ(times[1], 0);
  EXPECT_EQ(times[2], 2) << "the honest one";
  EXPECT_LT(times[4], kSecond);
}

TEST(CapturedFrames, ProgramThatWritesWithoutEnd_ExpectItsShareOfMemory) {
  constexpr uint32_t kSlots = 16384;
  constexpr size_t kBytes = 16320;
  Capturing flood(kSlots, 16384);
  Capturing victim;
  CapturedFrames frames(kBegin);
  ASSERT_TRUE(frames.add(flood.descriptor(), 0));
  ASSERT_TRUE(frames.add(victim.descriptor(), 0));
  victim.put(kBegin + 1);
  size_t held = 0;
  for (int round = 0; round < 40; ++round) {
    for (uint32_t i = 0; i < 512; ++i) flood.put(INT64_MAX, kBytes);
    frames.drain(kBegin + 2);
  }
  bool has_victims = false;
  while (const auto frame = frames.take(kBegin, true)) {
    held += frame->bytes.size();
    has_victims |= frame->source == 1;
  }
  EXPECT_LE(held, CapturedFrames::kHeldBytesMax / 2 + kBytes);
  EXPECT_GT(held, CapturedFrames::kHeldBytesMax / 4);
  EXPECT_TRUE(has_victims);
}

TEST(CapturedFrames, ReasonsForNothing_ExpectNoneAndShortComments) {
  Capturing program(65536);
  CapturedFrames frames(kBegin);
  ASSERT_TRUE(frames.add(program.descriptor(), 0));
  program.put(kBegin + 1);
  program.put_reason(77, 1);
  program.put_reason(0, UINT16_MAX);
  for (int i = 0; i < 5000; ++i) program.put_reason(0, 1);
  frames.drain(kBegin + 2);
  const auto frame = frames.take(kBegin + 2, true);
  ASSERT_TRUE(frame);
  EXPECT_NE(frame->comment.find("dropped: "), std::string::npos);
  EXPECT_LT(frame->comment.size(), 8192u);
}

TEST(CapturedFrames, CountsOfWhatIsNotThere_ExpectAnEnd) {
  Capturing program(131072, 64);
  CapturedFrames frames(kBegin);
  ASSERT_TRUE(frames.add(program.descriptor(), 0));
  for (const uint64_t written : {uint64_t{131072}, UINT64_MAX, uint64_t{5}, uint64_t{0}}) {
    program.say_written(written);
    EXPECT_FALSE(frames.drain(kBegin));
  }
}

TEST(CapturedFrames, UnsoundMemory_ExpectAnErrorAndTheOthers) {
  Capturing sound;
  CapturedFrames frames(kBegin);
  ASSERT_TRUE(frames.add(sound.descriptor(), 0));
  const Descriptor open_to_writes(memfd_create("uroce-capture", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(open_to_writes.get(), 65536), 0);
  EXPECT_EQ(frames.add(open_to_writes.get(), 0).error().code, EPERM);
  const auto zeros = host::make_sealed_memory("uroce-capture", 65536);
  EXPECT_EQ(frames.add(zeros->descriptor.get(), 0).error().code, EPROTO);
  EXPECT_EQ(frames.add(-1, 0).error().code, EPERM);
  sound.put(kBegin + 1);
  EXPECT_TRUE(frames.drain(kBegin + 2));
  EXPECT_EQ(frames.sources(), 1u);
}

TEST(CapturedFrames, MoreThanAUserMayHave_ExpectARefusalUntilSomeHaveEnded) {
  std::vector<Capturing> programs;
  for (uint32_t i = 0; i < CapturedFrames::kRingsOfUserMax / 64 + 1; ++i) programs.emplace_back(2, 64, 64);
  CapturedFrames frames(kBegin);
  int pid = 0;
  for (; pid + 1 < static_cast<int>(programs.size()); ++pid)
    ASSERT_TRUE(frames.add(programs[static_cast<size_t>(pid)].descriptor(), pid));
  EXPECT_EQ(frames.add(programs.back().descriptor(), pid).error().code, EDQUOT);
  const auto ended = [](int which) { return which == 3; };
  for (int i = 0; i < 2; ++i) {
    frames.drain(kBegin);
    frames.forget_ended(ended);
  }
  EXPECT_TRUE(frames.add(programs.back().descriptor(), pid));
}

TEST(CapturedFrames, ProgramThatHasEnded_ExpectItsLastFramesAndCounts) {
  CapturedFrames frames(kBegin);
  {
    Capturing program;
    ASSERT_TRUE(frames.add(program.descriptor(), 7));
    program.put(kBegin + 1);
  }
  const auto ended = [](int pid) { return pid == 7; };
  frames.forget_ended(ended);
  frames.drain(kBegin + 2);
  frames.forget_ended(ended);
  EXPECT_EQ(times_of(frames, kBegin + 2, true), (std::vector<int64_t>{1}));
  frames.drain(kBegin + 3);
  frames.forget_ended(ended);
  EXPECT_FALSE(frames.drain(kBegin + 4));
  EXPECT_EQ(frames.counts(0).received, 1u);
}

}  // namespace
}  // namespace uroce::dump
