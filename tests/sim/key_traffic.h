#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "base/values/random.h"
#include "mem/regions/fast_region.h"
#include "mem/regions/window.h"
#include "tests/sim/endpoint.h"

namespace uroce::sim {

/// A region that one endpoint binds and the other uses, again and again under new keys: its own, or that of a
/// window of any type over a part of it, until the key is taken away: by the user's SEND with invalidate, by
/// the owner's LOCAL_INV, READ with invalidate or, of a window of type 1, next bind, or, in the end, by one
/// of these in the middle of what the user does. From then to the next binding the memory is the owner's
/// alone: no byte of it may change, whatever the network still delivers.
class KeyTraffic {
 public:
  struct Options {
    uint32_t rounds = 20;
    uint64_t seed = 0;
    bool break_in = false;  // the last round ends in its middle, and the connection with it
  };
  KeyTraffic(Endpoint& user, Endpoint& owner, const Options& options);
  ~KeyTraffic() { static_cast<void>(close()); }

  void act();
  [[nodiscard]] bool done() const {
    return !failure_.empty() || (step_ == Step::kDone && user_outstanding_ == 0);
  }
  [[nodiscard]] const std::string& failure() const { return failure_; }
  [[nodiscard]] uint32_t completed() const { return completed_; }
  /// Ends the region; before the endpoints close.
  std::string close();

 private:
  static constexpr uint64_t kPage = 4096;
  static constexpr uint32_t kPages = 8;
  enum class Step : uint8_t { kOwned, kBinding, kUsed, kBreaking, kDone };

  struct Free {
    void operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t{kPage}); }
  };

  void bind();
  void post_registration(uint32_t pages, uint64_t length);
  void post_bind(uint64_t length);
  void use();
  void post_write(uint32_t bytes_max);
  void post_end();
  void post_take_back();
  void post_invalidation();
  void post_break();
  void poll_user();
  void poll_owner();
  void handle_owner(const queue::Completion& completion);
  void take_back();
  void overwrite();
  void check_owned();
  [[nodiscard]] std::byte& at(uint64_t offset) {
    const uint64_t place = start_ + skip_ + offset;
    return page(order_[place / kPage])[place % kPage];
  }
  [[nodiscard]] std::byte* page(uint32_t i) const { return memory_.get() + i * kPage; }
  [[nodiscard]] bool type1() const { return window_ != nullptr && window_ == windows_[0].get(); }
  queue::SendRequest& reserve(Endpoint& endpoint, queue::SendOperation operation);
  void fail(const std::string& what);

  Endpoint& user_;
  Endpoint& owner_;
  Options options_;
  Random random_;
  std::string failure_;
  Step step_ = Step::kOwned;
  uint32_t round_ = 0;
  uint32_t completed_ = 0;
  uint32_t user_outstanding_ = 0;
  bool taken_back_ = false;

  std::unique_ptr<std::byte[], Free> memory_;
  std::vector<std::byte> owned_;  // what is in memory while it is the owner's alone
  std::vector<std::byte> model_;  // of what the user has while it is bound
  std::vector<uint32_t> order_;   // of the pages
  uint64_t bus_address_ = 0;
  uint64_t start_ = 0;  // of the first byte, in the first page
  uint64_t iova_ = 0;
  MemoryKey region_key_;
  // What the user has: the region, or a window over it, from its byte skip_ on.
  uint64_t skip_ = 0;
  uint64_t address_ = 0;
  MemoryKey key_;
  mem::Window* window_ = nullptr;  // of windows_
  std::unique_ptr<mem::FastRegion> region_;
  std::array<std::unique_ptr<mem::Window>, 3> windows_;  // of type 1, 2A, 2B
  mem::PageList list_;
  std::vector<Arena::Slot> lent_;  // by the user's arena
  std::optional<Arena::Slot> read_from_;
};

}  // namespace uroce::sim
