#include "capture/ring.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace uroce::capture {
namespace {

constexpr uint32_t kSlots = 8;

/// A ring of this process, and frames of so many bytes, each of which has the frame's number.
class Memory {
 public:
  explicit Memory(uint32_t slots = kSlots)
      : layout_({.pollers = 1, .slots = slots, .slot_bytes = 192}),
        bytes_(layout_.bytes() / 64),
        writer_(data(), layout_, 0) {}
  std::byte* data() { return reinterpret_cast<std::byte*>(bytes_.data()); }
  RingReader reader() { return {data(), layout_, 0}; }
  RingWriter& writer() { return writer_; }
  [[nodiscard]] const RingLayout& layout() const { return layout_; }
  void put(uint64_t number, size_t bytes) {
    const std::vector<std::byte> frame(bytes, static_cast<std::byte>(number));
    writer_.put({.time_ns = static_cast<int64_t>(number), .bytes = static_cast<uint32_t>(bytes)}, frame);
  }

 private:
  struct alignas(64) Line {
    std::byte bytes[64]{};
  };
  const RingLayout layout_;
  std::vector<Line> bytes_;
  RingWriter writer_;
};

TEST(Ring, WhatWasPublished_ExpectItInOrderAndCutToTheSlot) {
  Memory memory;
  RingReader reader = memory.reader();
  std::vector<std::byte> bytes(4096);
  memory.put(1, 60);
  EXPECT_FALSE(reader.read(bytes)) << "not published";
  memory.put(2, 1000);
  memory.writer().publish();
  auto record = reader.read(bytes);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->time_ns, 1);
  EXPECT_EQ(record->captured, 60u);
  record = reader.read(bytes);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->bytes, 1000u);
  EXPECT_EQ(record->captured, 128u);
  EXPECT_EQ(bytes[127], std::byte{2});
  EXPECT_FALSE(reader.read(bytes));
  EXPECT_EQ(reader.lost(), 0u);
}

TEST(Ring, WhatWasTakenBack_ExpectTheNextInItsPlace) {
  Memory memory;
  RingReader reader = memory.reader();
  std::vector<std::byte> bytes(256);
  memory.put(1, 60);
  const uint64_t behind = memory.writer().position();
  memory.put(2, 60);
  memory.writer().back_to(behind);
  memory.writer().publish();
  memory.put(3, 60);
  memory.writer().publish();
  EXPECT_EQ(reader.read(bytes)->time_ns, 1);
  EXPECT_EQ(reader.read(bytes)->time_ns, 3);
  EXPECT_FALSE(reader.read(bytes));
}

TEST(Ring, AReaderThatComesTooLate_ExpectTheNewestAndHowManyItLost) {
  Memory memory;
  RingReader reader = memory.reader();
  std::vector<std::byte> bytes(256);
  for (uint64_t i = 1; i <= 100; ++i) memory.put(i, 60);
  memory.writer().publish();
  uint64_t read = 0;
  int64_t newest = 0;
  while (const auto record = reader.read(bytes)) {
    EXPECT_GT(record->time_ns, newest);
    newest = record->time_ns;
    ++read;
  }
  EXPECT_EQ(newest, 100);
  EXPECT_EQ(read + reader.lost(), 100u);
  EXPECT_GE(read, kSlots - 1);
}

TEST(Ring, WriterAndReaderAtOnce_ExpectNoMixedFrameAndAllCounted) {
  constexpr uint64_t kFrames = 200'000;
  Memory memory;
  std::thread writer([&] {
    for (uint64_t i = 1; i <= kFrames; ++i) {
      memory.put(i, 120);
      memory.writer().publish();
    }
  });
  RingReader reader = memory.reader();
  std::vector<std::byte> bytes(256);
  uint64_t read = 0;
  int64_t newest = 0;
  while (newest != static_cast<int64_t>(kFrames)) {
    const auto record = reader.read(bytes);
    if (!record) continue;
    ++read;
    ASSERT_GT(record->time_ns, newest);
    newest = record->time_ns;
    ASSERT_EQ(record->captured, 120u);
    for (size_t i = 0; i < 120; ++i) ASSERT_EQ(bytes[i], static_cast<std::byte>(newest));
  }
  writer.join();
  EXPECT_EQ(read + reader.lost(), kFrames);
}

TEST(Ring, UnsoundFormats_ExpectThemRefused) {
  for (const RingPreamble& one : {RingPreamble{.magic = 1, .pollers = 1, .slots = 8, .slot_bytes = 192},
                                  {.pollers = 0, .slots = 8, .slot_bytes = 192},
                                  {.pollers = 65, .slots = 8, .slot_bytes = 192},
                                  {.pollers = 1, .slots = 7, .slot_bytes = 192},
                                  {.pollers = 1, .slots = 1, .slot_bytes = 192},
                                  {.pollers = 1, .slots = 8, .slot_bytes = 100},
                                  {.pollers = 1, .slots = 8, .slot_bytes = 0},
                                  {.pollers = 64, .slots = 1u << 31, .slot_bytes = 1u << 31}})
    EXPECT_FALSE(RingLayout(one).sound());
  EXPECT_TRUE(Memory().layout().sound());
}

}  // namespace
}  // namespace uroce::capture
