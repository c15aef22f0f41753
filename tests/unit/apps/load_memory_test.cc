// The memory of a load tells what no message can have left.
#include "apps/perf/load/load_memory.h"

#include <gtest/gtest.h>

#include <cstring>

#include "client/failure.h"

namespace uroce::perf {
namespace {

class LoadMemoryTest : public testing::Test {
 protected:
  LoadMemoryTest() {
    device_ = client::VerbsDevice::open({.name = "uroce0"});
    domain_.reset(ibv_alloc_pd(device_.context.get()));
    memory_.emplace(device_, domain_.get(), plan_, load_, 4);
    memory_->prepare();
  }

  /// As a message of `bytes` leaves it in the slot of message 1.
  void arrive(size_t bytes) {
    std::memcpy(target(1), reinterpret_cast<const void*>(memory_->source(1)), bytes);
  }
  std::byte* target(uint64_t number) { return reinterpret_cast<std::byte*>(memory_->target(number)); }

  Plan plan_;
  Load load_{.name = {},
             .mix = {{Operation::kWrite, 64, 1}, {Operation::kWrite, 256, 1}},
             .queue_pairs = 2,
             .depth = 4};
  client::VerbsDevice device_;
  client::ProtectionDomain domain_;
  std::optional<LoadMemory> memory_;
};

TEST_F(LoadMemoryTest, TakesMessagesOfAnyLength) {
  EXPECT_EQ(memory_->verify(0), 0u);
  arrive(256);
  EXPECT_GE(memory_->verify(0), 255u);
  memory_->prepare();
  arrive(64);
  const uint64_t compared = memory_->verify(0);
  EXPECT_GE(compared, 63u);
  EXPECT_LE(compared, 64u);
}

TEST_F(LoadMemoryTest, SeesAWrongByte) {
  arrive(256);
  target(1)[17] ^= std::byte{1};
  EXPECT_THROW(static_cast<void>(memory_->verify(0)), client::Failure);
}

TEST_F(LoadMemoryTest, SeesAByteBehindTheMessage) {
  arrive(256);
  target(1)[256] = std::byte{1};
  EXPECT_THROW(static_cast<void>(memory_->verify(0)), client::Failure);
}

TEST_F(LoadMemoryTest, SeesAnAtomicTooFew) {
  Address own;
  memory_->tell(own);
  const uint64_t one = 1;
  std::memcpy(reinterpret_cast<void*>(memory_->counter(1, own)), &one, sizeof one);
  EXPECT_NO_THROW(static_cast<void>(memory_->verify(1)));
  EXPECT_THROW(static_cast<void>(memory_->verify(2)), client::Failure);
}

}  // namespace
}  // namespace uroce::perf
