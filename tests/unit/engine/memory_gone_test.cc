// Registered memory that its owner has unmapped, truncated or protected, used by every operation at either
// end while another pair of queue pairs on the same pollers goes on.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/unit/copy/vanishing_memory.h"
#include "virtual_pair.h"

namespace uroce::engine {
namespace {

using queue::CompletionStatus;
using queue::SendOperation;
using uroce::testing::Vanishing;
using uroce::testing::VanishingMemory;

constexpr size_t kPage = VanishingMemory::kPage;

/// Pages of a side, registered; the second half goes away.
class Pages {
 public:
  static constexpr size_t kBorder = 4 * kPage;

  explicit Pages(Side& side) : side_(side), memory_(8) {
    std::memset(memory_.data(), 7, memory_.size());
    const auto keys = side.device().regions().register_user(
        {.domain = side.domain(),
         .address = memory_.data(),
         .length = memory_.size(),
         .iova = address(0),
         .access = mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead});
    EXPECT_TRUE(keys);
    if (keys) keys_ = *keys;
  }
  ~Pages() { EXPECT_TRUE(side_.device().regions().deregister(keys_.lkey)); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  [[nodiscard]] const VanishingMemory& memory() const { return memory_; }
  [[nodiscard]] uint64_t address(size_t offset) const {
    return reinterpret_cast<uint64_t>(memory_.data() + offset);
  }
  [[nodiscard]] queue::Segment part(size_t offset, size_t length) const {
    return {address(offset), static_cast<uint32_t>(length), keys_.lkey};
  }
  [[nodiscard]] MemoryKey rkey() const { return keys_.rkey; }
  void vanish(Vanishing how) const { memory_.vanish(how, kBorder); }

 private:
  Side& side_;
  VanishingMemory memory_;
  mem::RegionKeys keys_;
};

/// Lengths and distances before the border: all beyond it, across it, in one packet and in several, tails and
/// bodies.
struct Place {
  size_t before;
  size_t length;
};
constexpr Place kPlaces[] = {{0, 1},     {0, 64},     {4, 8},       {60, 64},     {0, 200},
                             {100, 101}, {500, 1000}, {1000, 1024}, {3000, 8000}, {4096, 4100}};

class MemoryGone : public ::testing::TestWithParam<Vanishing> {
 protected:
  MemoryGone()
      : left(pair.left, 50'000),
        right(pair.right, 50'000),
        others_left(pair.left, 50'000),
        others_right(pair.right, 50'000) {
    for (const auto& [one, other] : {std::pair{&left, &right}, std::pair{&others_left, &others_right}}) {
      EXPECT_EQ(connect_pair(*one, *other), 0);
    }
  }

  [[nodiscard]] static queue::Segment own(Side& side, size_t offset, size_t length) {
    return {side.address() + offset, static_cast<uint32_t>(length), side.lkey()};
  }

  /// Until all is said and done, with traffic of the others in between, which must not notice anything.
  void run() {
    fill(others_left.buffer(), ++seed_);
    for (size_t at = 0; at < 50'000; at += 5'000) {
      others_left.post({{SendOperation::kWrite, own(others_left, at, 5'000), others_right.address() + at,
                         others_right.rkey()}});
    }
    pair.settle();
    for (int i = 0; i < 10; ++i) {
      const auto completion = others_left.look();
      ASSERT_TRUE(completion);
      EXPECT_EQ(completion->status, CompletionStatus::kSuccess);
    }
    EXPECT_EQ(others_left.buffer(), others_right.buffer());
  }

  static void expect(Side& side, const std::vector<std::pair<uint64_t, CompletionStatus>>& expected) {
    for (const auto& [id, status] : expected) {
      const auto completion = side.look();
      ASSERT_TRUE(completion) << "of " << id;
      EXPECT_EQ(completion->wr_id, id);
      EXPECT_EQ(completion->status, status) << "of " << id;
    }
    EXPECT_FALSE(side.look());
  }
  /// Of three requests the first succeeds, the second ends with `status`, and the third is flushed if that is
  /// an error.
  static void expect_three(Side& side, CompletionStatus status, uint64_t first_id = 1) {
    const bool good = status == CompletionStatus::kSuccess;
    expect(side, {{first_id, CompletionStatus::kSuccess},
                  {first_id + 1, status},
                  {first_id + 2, good ? CompletionStatus::kSuccess : CompletionStatus::kFlushed}});
  }
  [[nodiscard]] static qp::State state(Side& side) {
    return side.device().query_queue_pair(side.queue_pair()).state;
  }
  /// A new connection of the same two.
  void reconnect() { ASSERT_EQ(reconnect_pair(left, right), 0); }
  [[nodiscard]] uint64_t at_left(Counter counter) { return pair.counter(*pair.left_state, counter); }
  [[nodiscard]] uint64_t at_right(Counter counter) { return pair.counter(*pair.right_state, counter); }
  [[nodiscard]] bool readable() const { return GetParam() == Vanishing::kReadOnly; }

  VirtualPair pair;
  Side left;
  Side right;
  Side others_left;
  Side others_right;

 private:
  uint64_t seed_ = 0;
};

TEST_P(MemoryGone, WriteToIt_ExpectARemoteAccessErrorAndWhatIsBehindItUnseen) {
  std::memset(left.buffer().data(), 9, left.buffer().size());
  for (const auto& [before, length] : kPlaces) {
    SCOPED_TRACE(std::to_string(before) + " before the border of " + std::to_string(length));
    const Pages target(right);
    target.vanish(GetParam());
    std::memset(right.buffer().data(), 0, right.buffer().size());
    const uint64_t gone = at_right(Counter::kMemoryGone);
    const uint64_t naks = at_right(Counter::kAccessNakSent);
    right.receive({own(right, 0, 8)}, 101);
    left.post({{SendOperation::kWrite, own(left, 0, 8), right.address(), right.rkey()},
               {SendOperation::kWrite, own(left, 0, length), target.address(Pages::kBorder - before),
                target.rkey()},
               {SendOperation::kWrite, own(left, 0, 8), right.address() + 100, right.rkey()}});
    run();
    expect_three(left, CompletionStatus::kRemoteAccessError);
    expect(right, {{101, CompletionStatus::kFlushed}});
    EXPECT_EQ(right.buffer()[7], std::byte{9});
    EXPECT_EQ(right.buffer()[107], std::byte{0});
    EXPECT_EQ(at_right(Counter::kMemoryGone), gone + 1);
    EXPECT_EQ(at_right(Counter::kAccessNakSent), naks + 1);
    EXPECT_EQ(state(left), qp::State::kErr);
    EXPECT_EQ(state(right), qp::State::kErr);
    target.memory().come_back();
    reconnect();
  }
}

TEST_P(MemoryGone, WriteWithImmediateToIt_ExpectTheReceiveFlushed) {
  for (const auto& [before, length] : kPlaces) {
    SCOPED_TRACE(std::to_string(before) + " before the border of " + std::to_string(length));
    const Pages target(right);
    target.vanish(GetParam());
    right.receive({own(right, 0, 8), own(right, 0, 8), own(right, 0, 8)}, 101);
    left.post({{SendOperation::kWriteImm, own(left, 0, 8), right.address(), right.rkey()},
               {SendOperation::kWriteImm, own(left, 0, length), target.address(Pages::kBorder - before),
                target.rkey()},
               {SendOperation::kWriteImm, own(left, 0, 8), right.address(), right.rkey()}});
    run();
    expect_three(left, CompletionStatus::kRemoteAccessError);
    expect_three(right, CompletionStatus::kFlushed, 101);
    target.memory().come_back();
    reconnect();
  }
}

TEST_P(MemoryGone, SendIntoIt_ExpectALocalProtectionErrorAndARemoteOperationalOne) {
  for (const auto& [before, length] : kPlaces) {
    SCOPED_TRACE(std::to_string(before) + " before the border of " + std::to_string(length));
    const Pages target(right);
    target.vanish(GetParam());
    const uint64_t gone = at_right(Counter::kMemoryGone);
    const uint64_t naks = at_right(Counter::kOperationalNakSent);
    right.receive({own(right, 0, 100), target.part(Pages::kBorder - before, length), own(right, 0, 100)},
                  101);
    left.post({{SendOperation::kSend, own(left, 0, 8), 0, {}},
               {SendOperation::kSend, own(left, 0, length), 0, {}},
               {SendOperation::kSend, own(left, 0, 8), 0, {}}});
    run();
    expect_three(left, CompletionStatus::kRemoteOperationError);
    expect_three(right, CompletionStatus::kLocalProtectionError, 101);
    EXPECT_EQ(at_right(Counter::kMemoryGone), gone + 1);
    EXPECT_EQ(at_right(Counter::kOperationalNakSent), naks + 1);
    EXPECT_EQ(state(right), qp::State::kErr);
    target.memory().come_back();
    reconnect();
  }
}

TEST_P(MemoryGone, ReadFromIt_ExpectARemoteAccessError) {
  for (const auto& [before, length] : kPlaces) {
    SCOPED_TRACE(std::to_string(before) + " before the border of " + std::to_string(length));
    const Pages source(right);
    source.vanish(GetParam());
    const uint64_t gone = at_right(Counter::kMemoryGone);
    left.post(
        {{SendOperation::kRead, own(left, 0, 8), right.address(), right.rkey()},
         {SendOperation::kRead, own(left, 0, length), source.address(Pages::kBorder - before), source.rkey()},
         {SendOperation::kRead, own(left, 40'000, 8), right.address(), right.rkey()}});
    run();
    if (readable()) {
      expect_three(left, CompletionStatus::kSuccess);
      EXPECT_EQ(left.buffer()[length - 1], std::byte{7});
    } else {
      expect_three(left, CompletionStatus::kRemoteAccessError);
      EXPECT_EQ(at_right(Counter::kMemoryGone), gone + 1);
      EXPECT_EQ(state(right), qp::State::kErr);
    }
    source.memory().come_back();
    reconnect();
  }
}

TEST_P(MemoryGone, SendOrWriteOutOfIt_ExpectALocalProtectionErrorAndThePeerUntouched) {
  for (const SendOperation operation : {SendOperation::kSend, SendOperation::kWrite}) {
    for (const auto& [before, length] : kPlaces) {
      SCOPED_TRACE(std::to_string(before) + " before the border of " + std::to_string(length));
      const Pages source(left);
      source.vanish(GetParam());
      const uint64_t gone = at_left(Counter::kMemoryGone);
      if (operation == SendOperation::kSend)
        right.receive({own(right, 0, 100), own(right, 0, 9000), own(right, 0, 100)}, 101);
      left.post({{operation, own(left, 0, 8), right.address(), right.rkey()},
                 {operation, source.part(Pages::kBorder - before, length), right.address(), right.rkey()},
                 {operation, own(left, 0, 8), right.address(), right.rkey()}});
      run();
      if (readable()) {
        expect_three(left, CompletionStatus::kSuccess);
      } else {
        expect_three(left, CompletionStatus::kLocalProtectionError);
        EXPECT_GE(at_left(Counter::kMemoryGone), gone + 1);
        EXPECT_EQ(state(left), qp::State::kErr);
      }
      EXPECT_EQ(state(right), qp::State::kRts);
      while (right.look()) continue;
      source.memory().come_back();
      reconnect();
    }
  }
}

TEST_P(MemoryGone, ReadIntoIt_ExpectALocalProtectionErrorAndThePeerUntouched) {
  for (const auto& [before, length] : kPlaces) {
    SCOPED_TRACE(std::to_string(before) + " before the border of " + std::to_string(length));
    const Pages target(left);
    target.vanish(GetParam());
    const uint64_t gone = at_left(Counter::kMemoryGone);
    left.post(
        {{SendOperation::kRead, own(left, 0, 8), right.address(), right.rkey()},
         {SendOperation::kRead, target.part(Pages::kBorder - before, length), right.address(), right.rkey()},
         {SendOperation::kRead, own(left, 0, 8), right.address(), right.rkey()}});
    run();
    expect_three(left, CompletionStatus::kLocalProtectionError);
    EXPECT_EQ(at_left(Counter::kMemoryGone), gone + 1);
    EXPECT_EQ(state(left), qp::State::kErr);
    EXPECT_EQ(state(right), qp::State::kRts);
    target.memory().come_back();
    reconnect();
  }
}

/// Nothing is pinned: what lies at a registered address is what is accessed, also when it is something else
/// by now. Only deregistering ends that.
TEST_P(MemoryGone, MemoryMappedAnewAtItsAddress_ExpectTheNewMemoryAccessed) {
  const Pages target(right);
  std::memset(left.buffer().data(), 9, left.buffer().size());
  target.memory().vanish(GetParam());
  void* const anew = mmap(target.memory().data(), target.memory().size(), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  ASSERT_EQ(anew, target.memory().data());
  left.post({{SendOperation::kWrite, own(left, 0, 3000), target.address(Pages::kBorder), target.rkey()},
             {SendOperation::kRead, own(left, 4000, 3000), target.address(Pages::kBorder), target.rkey()}});
  run();
  expect(left, {{1, CompletionStatus::kSuccess}, {2, CompletionStatus::kSuccess}});
  EXPECT_EQ(target.memory().data()[Pages::kBorder + 2999], std::byte{9});
  EXPECT_EQ(left.buffer()[4000 + 2999], std::byte{9});
  EXPECT_EQ(at_right(Counter::kMemoryGone), 0u);
}

INSTANTIATE_TEST_SUITE_P(All, MemoryGone, ::testing::ValuesIn(uroce::testing::kVanishings),
                         [](const auto& tested) {
                           std::string name = to_string(tested.param);
                           std::erase_if(name, [](char c) { return std::isalnum(c) == 0; });
                           return name;
                         });

}  // namespace
}  // namespace uroce::engine
