// Queues on threads of their own, while namespaces come and go. For sanitizers, and for what only races show.
#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>

#include "disks.h"

namespace uroce::nvmf {
namespace {

using namespace testing_disks;

/// One counter in a block, in memory that every queue of the device sees. Unlike the scripted device it may
/// be used by several threads.
class CounterDevice final : public block::Device {
 public:
  [[nodiscard]] const block::Properties& properties() const override { return properties_; }
  Result<std::unique_ptr<block::Queue>> open_queue(uint32_t, std::span<const std::span<std::byte>>) override {
    return std::unique_ptr<block::Queue>(std::make_unique<CounterQueue>(*this));
  }

 private:
  class CounterQueue final : public block::Queue {
   public:
    explicit CounterQueue(CounterDevice& device) : device_(device) {}
    bool submit(const block::Request& request) override {
      under_way_.push_back(request);
      return true;
    }
    size_t poll(std::span<block::Ended> ended) override {
      size_t count = 0;
      for (; count < ended.size() && !under_way_.empty(); ++count, under_way_.pop_front()) {
        const block::Request& request = under_way_.front();
        const std::lock_guard guard(device_.mutex_);
        if (request.operation == Operation::kRead)
          std::memcpy(request.memory[0].iov_base, device_.block_.data(), device_.block_.size());
        if (request.operation == Operation::kWrite)
          std::memcpy(device_.block_.data(), request.memory[0].iov_base, device_.block_.size());
        ended[count] = {request.user, Outcome::kDone};
      }
      return count;
    }

   private:
    CounterDevice& device_;
    std::deque<block::Request> under_way_;
  };

  const block::Properties properties_{.description = "a counter", .block_bytes = 512, .blocks = 1};
  std::mutex mutex_;
  std::array<std::byte, 512> block_{};
};

Bytes block_with(uint64_t value) {
  Bytes block(512);
  std::memcpy(block.data(), &value, sizeof(value));
  return block;
}

class Threads : public Disks {
 protected:
  void add_counter(uint32_t nsid) {
    NamespaceOptions options;
    options.nsid = nsid;
    options.device = std::make_unique<CounterDevice>();
    ASSERT_TRUE(target.add_namespace(kSubsystem, std::move(options)).ok());
  }
};

/// Adds one to the counter by Compare and Write, again and again until it was let.
void count_up(HostQueue& io, std::atomic<bool>& failed) {
  for (;;) {
    const Bytes old = io.run(command::blocks(command::kRead, 1, 0, 1)).data;
    uint64_t value = 0;
    if (old.size() != 512) {
      failed = true;
      return;
    }
    std::memcpy(&value, old.data(), sizeof(value));
    const uint16_t first =
        io.send(command::fused(command::blocks(command::kCompare, 1, 0, 1), Command::Fuse::kFirst), old);
    const uint16_t second =
        io.send(command::fused(command::blocks(command::kWrite, 1, 0, 1), Command::Fuse::kSecond),
                block_with(value + 1));
    std::optional<Answer> compared, wrote;
    while (!compared) compared = io.answer(first);
    while (!wrote) wrote = io.answer(second);
    if (compared->ok() != wrote->ok()) failed = true;
    if (compared->ok()) return;
  }
}

TEST_F(Threads, CompareAndWriteLosesNoCount) {
  constexpr uint64_t kThreads = 3, kRounds = 50;
  add_counter(1);
  std::atomic<bool> failed = false;
  std::atomic<uint64_t> finished = 0;
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      Host host(target);
      HostQueue& io = host.io();
      for (uint64_t round = 0; round < kRounds; ++round) count_up(io, failed);
      ++finished;
      // A queue that is there is polled.
      while (finished < kThreads) io.poll();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(failed);
  Host host(target);
  EXPECT_EQ(host.io().run(command::blocks(command::kRead, 1, 0, 1)).data, block_with(kThreads * kRounds));
}

TEST_F(Threads, NamespacesComeAndGo) {
  constexpr int kRounds = 200;
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> served = 0, unexpected = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        Host host(target);
        HostQueue& io = host.io();
        for (int command = 0; command < 50; ++command) {
          const Answer answer = io.run(command::blocks(command::kWrite, 1, 0, 1), Bytes(512));
          if (answer.ok())
            ++served;
          else if (answer.code != StatusCode::kInvalidField)
            ++unexpected;
          host.admin.run(command::get_log_page(LogPage::kAna, 4096));
          host.admin.run(command::get_log_page(LogPage::kSmart, 512));
        }
      }
    });
  }
  for (int round = 0; round < kRounds || served == 0; ++round) {
    add_counter(1);
    target.collect();
    std::this_thread::yield();
    ASSERT_TRUE(
        target.set_ana_state(kSubsystem, 2, round % 2 == 0 ? AnaState::kChange : AnaState::kOptimized).ok());
    ASSERT_TRUE(target.remove_namespace(kSubsystem, 1).ok());
    target.collect();
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(unexpected, 0u);
  EXPECT_GT(served, 0u);
  EXPECT_EQ(target.collect(), 0u);
}

}  // namespace
}  // namespace uroce::nvmf
