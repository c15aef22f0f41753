// Queues in memory that their maker gives.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <memory_resource>
#include <new>

#include "queue/completion_queue.h"
#include "queue/shared_receive_queue.h"
#include "queue/work_queue.h"

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#define UROCE_SANITIZED 1
#endif
#endif

namespace uroce::queue {
namespace {

/// Gives memory that is not zero, until it gives no more.
class Given : public std::pmr::memory_resource {
 public:
  int left = 100;
  std::map<void*, size_t> pieces;

 private:
  void* do_allocate(size_t bytes, size_t alignment) override {
    if (left-- == 0) throw std::bad_alloc();
    EXPECT_EQ(alignment, 64u);
    void* memory = ::operator new(bytes, std::align_val_t{alignment});
    std::memset(memory, 0xA5, bytes);
    pieces.emplace(memory, bytes);
    return memory;
  }
  void do_deallocate(void* memory, size_t bytes, size_t alignment) override {
    EXPECT_EQ(pieces.at(memory), bytes);
    pieces.erase(memory);
    ::operator delete(memory, std::align_val_t{alignment});
  }
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override {
    return this == &other;
  }
};

TEST(QueueMemory, WorkQueuesLieWhereTheyWerePut) {
  Given given;
  {
    SendQueue queue({.depth = 3, .memory = &given});
    ASSERT_EQ(given.pieces.size(), 1u);
    const auto [memory, bytes] = *given.pieces.begin();
    SendRequest* request = queue.reserve();
    EXPECT_GE(static_cast<void*>(request), memory);
    EXPECT_LT(static_cast<void*>(request + 1), static_cast<void*>(static_cast<std::byte*>(memory) + bytes));
  }
  EXPECT_TRUE(given.pieces.empty());
  {
    const SharedReceiveQueue queue({.depth = 3, .memory = &given});
    EXPECT_EQ(given.pieces.size(), 1u);
  }
  EXPECT_TRUE(given.pieces.empty());
}

#ifdef UROCE_SANITIZED
TEST(QueueMemory, AddressSanitizerKnowsWhatWasFreed) {
  auto sends = std::make_unique<SendQueue>(SendQueue::Options{.depth = 4});
  const void* const slot = sends->reserve();
  EXPECT_FALSE(__asan_address_is_poisoned(slot));
  sends.reset();
  EXPECT_TRUE(__asan_address_is_poisoned(slot));
}
#endif

TEST(QueueMemory, CompletionsAlsoAfterResizing) {
  Given given;
  {
    CompletionQueue queue({.depth = 2, .lanes = 2, .memory = &given});
    EXPECT_EQ(given.pieces.size(), 2u);
    queue.push(0, {.wr_id = 7});
    auto slots = queue.slots_for(8);
    ASSERT_TRUE(queue.resize(0, 8, slots));
    slots = {};
    queue.publish(0);
    Completion completion;
    ASSERT_EQ(queue.poll({&completion, 1}), 1u);
    EXPECT_EQ(completion.wr_id, 7u);
    EXPECT_EQ(given.pieces.size(), 2u);
  }
  EXPECT_TRUE(given.pieces.empty());
}

TEST(QueueMemory, ThereMayBeNone) {
  Given given;
  given.left = 1;
  EXPECT_THROW(CompletionQueue({.depth = 2, .lanes = 2, .memory = &given}), std::bad_alloc);
  EXPECT_TRUE(given.pieces.empty());
}

}  // namespace
}  // namespace uroce::queue
