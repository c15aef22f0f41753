#pragma once

namespace uroce::qp::testing {

/// As long as it lives, `operator new` that would return nullptr for want of memory does so: what grows on
/// use asks by it. One at a time.
class RefusedMemory {
 public:
  RefusedMemory();
  ~RefusedMemory();
  RefusedMemory(const RefusedMemory&) = delete;
  RefusedMemory& operator=(const RefusedMemory&) = delete;
};

}  // namespace uroce::qp::testing
