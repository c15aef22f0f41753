#pragma once

#include <sys/types.h>

#include <functional>

#include "base/process/descriptor.h"

namespace uroce {

/// A descriptor that a forked child closes before fork() returns there, or what is at its other end would not
/// notice that this process has died. A program may close what it does not know; what has got the number then
/// stays open, if that has an inode of its own (anonymous files of the kernel share one).
class UninheritedDescriptor {
 public:
  UninheritedDescriptor() = default;
  explicit UninheritedDescriptor(Descriptor descriptor);
  /// The result of `open`, without a fork in between. None if that is none; errno is then still open's.
  /// `open` makes no other one.
  static UninheritedDescriptor opened(const std::function<Descriptor()>& open);
  UninheritedDescriptor(UninheritedDescriptor&& other) noexcept;
  UninheritedDescriptor& operator=(UninheritedDescriptor&& other) noexcept;
  ~UninheritedDescriptor();

  [[nodiscard]] bool ok() const { return number_ >= 0; }
  [[nodiscard]] int get() const { return number_; }
  /// False: there is none, or the program has closed it, or this is a forked child.
  [[nodiscard]] bool is_open() const;

 private:
  int number_ = -1;
  ino_t inode_ = 0;
};

}  // namespace uroce
