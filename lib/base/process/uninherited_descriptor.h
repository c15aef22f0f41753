#pragma once

#include <sys/types.h>

#include "base/process/descriptor.h"

namespace uroce {

/// A descriptor that a forked child closes before fork() returns there, or what is at its other end would not
/// notice that this process has died. A program may close what it does not know; what has got the number then
/// stays open.
class UninheritedDescriptor {
 public:
  UninheritedDescriptor() = default;
  explicit UninheritedDescriptor(Descriptor descriptor);
  UninheritedDescriptor(UninheritedDescriptor&& other) noexcept;
  UninheritedDescriptor& operator=(UninheritedDescriptor&& other) noexcept;
  ~UninheritedDescriptor();

  [[nodiscard]] bool ok() const { return number_ >= 0; }
  [[nodiscard]] int get() const { return number_; }

 private:
  int number_ = -1;
  ino_t inode_ = 0;
};

}  // namespace uroce
