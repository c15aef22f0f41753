#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/values/result.h"
#include "mem/keys/region_table.h"

namespace uroce::mem {

/// No preference.
inline constexpr int kAnyNode = -1;

/// Memory of the process's own: private, zeroed, filled in, in pages of 2 MB where there are any. Whole
/// multiples of 2 MB that begin at one, in any case. Control path.
class PageMapping {
 public:
  static constexpr uint64_t kHugepageBytes = 2ull << 20;

  struct Options {
    int node = kAnyNode;  // memory node; nothing comes from another
    bool hugepages_only = false;
  };
  /// ENOMEM: not so much, or no hugepages. EINVAL: no bytes, or no such node.
  static Result<PageMapping> make(const RegionTable& table, uint64_t bytes, const Options& options);

  PageMapping() = default;
  PageMapping(PageMapping&& other) noexcept
      : address_(std::exchange(other.address_, nullptr)),
        length_(other.length_),
        page_bytes_(other.page_bytes_) {}
  PageMapping& operator=(PageMapping&& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(length_, other.length_);
    std::swap(page_bytes_, other.page_bytes_);
    return *this;
  }
  ~PageMapping();

  /// The memory stays for good: something may still lead to it.
  void abandon() { address_ = nullptr; }

  [[nodiscard]] std::byte* address() const { return address_; }
  [[nodiscard]] uint64_t length() const { return length_; }
  [[nodiscard]] uint64_t page_bytes() const { return page_bytes_; }
  /// Where the first page lies; kAnyNode: the kernel does not say.
  [[nodiscard]] int node() const;

 private:
  PageMapping(std::byte* address, uint64_t length, uint64_t page_bytes)
      : address_(address), length_(length), page_bytes_(page_bytes) {}
  Status bind(int node) const;
  static PageMapping of_hugepages(uint64_t length);
  static PageMapping of_ordinary_pages(uint64_t length);

  std::byte* address_ = nullptr;
  uint64_t length_ = 0;
  uint64_t page_bytes_ = 0;
};

}  // namespace uroce::mem
