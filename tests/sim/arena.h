#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/values/random.h"
#include "mem/keys/region_table.h"
#include "queue/work_request.h"

namespace uroce::sim {

/// A registered region and, beside it, what its bytes ought to be. Parts of it are lent to messages, with
/// guard bytes around each.
class Arena {
 public:
  static constexpr uint64_t kBytes = 768 << 10;  // if nothing else is said
  static constexpr uint64_t kPageBytes = 4096;
  static constexpr uint64_t kGuardBytes = 24;

  struct Slot {
    uint64_t offset = 0;  // of the first byte between the guards
    uint64_t length = 0;
  };

  /// `iova` is what the region's keys call its first byte; `bytes` are whole pages.
  Arena(mem::RegionTable& regions, DomainId domain, uint64_t iova, Random& random, uint64_t bytes = kBytes);
  /// That so much can be lent from.
  static constexpr uint64_t bytes_for(uint64_t lent) {
    return (lent + 2 * kGuardBytes + kAlignment + kPageBytes - 1) / kPageBytes * kPageBytes;
  }

  std::optional<Slot> lend(uint64_t length, Random& random);
  /// A lent slot comes back; a non-empty text says what its bytes, guards included, ought not to be.
  std::string give_back(const Slot& slot);

  /// Memory and model: the application writes.
  void write(const Slot& slot, std::span<const std::byte> bytes);
  /// Model only: the stack should have written.
  void expect(const Slot& slot, std::span<const std::byte> bytes);

  /// Compares the slot as give_back() does.
  [[nodiscard]] std::string check(const Slot& slot) const;
  /// Compares all that is not lent.
  [[nodiscard]] std::string check() const;
  [[nodiscard]] bool idle() const { return lent_.empty(); }
  /// Half of it is lent: what is left is for receives, without which nothing would ever come back.
  [[nodiscard]] bool crowded() const { return lent_bytes_ > bytes_ / 2; }

  /// Whole pages.
  [[nodiscard]] std::span<std::byte> memory() const { return {memory_.get(), bytes_}; }
  [[nodiscard]] uint64_t iova(const Slot& slot) const { return iova_ + slot.offset; }
  [[nodiscard]] queue::Segment segment(const Slot& slot) const;
  [[nodiscard]] mem::RegionKeys keys() const { return keys_; }

 private:
  [[nodiscard]] std::string compare(uint64_t begin, uint64_t end) const;

  static constexpr uint64_t kAlignment = 64;

  uint64_t iova_;
  uint64_t bytes_;
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t{kPageBytes}); }
  };
  std::unique_ptr<std::byte[], Free> memory_;
  std::vector<std::byte> model_;
  mem::RegionKeys keys_;
  std::map<uint64_t, uint64_t> lent_;  // begin -> end, guards included
  uint64_t lent_bytes_ = 0;
};

}  // namespace uroce::sim
