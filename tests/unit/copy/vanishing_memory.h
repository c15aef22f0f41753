#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <stdexcept>
#include <string>

namespace uroce::testing {

/// What the owner of registered memory may do to it.
enum class Vanishing { kUnmapped, kNoAccess, kReadOnly, kTruncated };

inline constexpr Vanishing kVanishings[] = {Vanishing::kUnmapped, Vanishing::kNoAccess, Vanishing::kReadOnly,
                                            Vanishing::kTruncated};
/// Those after which the memory cannot be read either.
inline constexpr Vanishing kUnreadable[] = {Vanishing::kUnmapped, Vanishing::kNoAccess,
                                            Vanishing::kTruncated};

inline std::string to_string(Vanishing how) {
  const char* const names[] = {"unmapped", "no access", "read-only", "truncated"};
  return names[static_cast<int>(how)];
}

/// Pages whose end goes away in one of these ways, and can be had back.
class VanishingMemory {
 public:
  static constexpr size_t kPage = 4096;

  /// `page` is the size of a page of the memory; hugepages may not be there: std::runtime_error.
  explicit VanishingMemory(size_t pages, size_t page = kPage) : bytes_(pages * page) {
    file_ = memfd_create("vanishing", page == kPage ? 0 : MFD_HUGETLB);
    if (file_ < 0 || ftruncate(file_, static_cast<off_t>(bytes_)) != 0) fail("memfd");
    void* const at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    if (at == MAP_FAILED) fail("mmap");
    data_ = static_cast<std::byte*>(at);
  }
  ~VanishingMemory() {
    munmap(data_, bytes_);
    close(file_);
  }
  VanishingMemory(const VanishingMemory&) = delete;
  VanishingMemory& operator=(const VanishingMemory&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] size_t size() const { return bytes_; }

  /// Everything from `offset`, a border between pages, on.
  void vanish(Vanishing how, size_t offset = 0) const {
    int result = 0;
    switch (how) {
      case Vanishing::kUnmapped:
        result = munmap(data_ + offset, bytes_ - offset);
        break;
      case Vanishing::kNoAccess:
        result = mprotect(data_ + offset, bytes_ - offset, PROT_NONE);
        break;
      case Vanishing::kReadOnly:
        result = mprotect(data_ + offset, bytes_ - offset, PROT_READ);
        break;
      case Vanishing::kTruncated:
        result = ftruncate(file_, static_cast<off_t>(offset));
        break;
    }
    if (result != 0) fail("vanish");
  }

  /// All of it is mapped anew at the same address, readable and writable. What was cut off is zero.
  void come_back() const {
    if (ftruncate(file_, static_cast<off_t>(bytes_)) != 0) fail("ftruncate");
    if (mmap(data_, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_, 0) == MAP_FAILED)
      fail("mmap");
  }

 private:
  static void fail(const char* what) { throw std::runtime_error(what); }

  size_t bytes_;
  int file_ = -1;
  std::byte* data_ = nullptr;
};

}  // namespace uroce::testing
