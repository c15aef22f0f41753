#pragma once

#include <cstddef>

#include "base/tables/pooled_memory.h"

namespace uroce {

/// Objects of a class that derives from this lie in pooled_memory(), at a cache line. A class whose objects
/// are deleted by a pointer to a base has a virtual destructor there.
class Pooled {
 public:
  // None with an alignment: objects aligned to a cache line are made by these, too. Beside them an operator
  // delete with alignment and size would not be called when a constructor throws, and one without a size
  // would be preferred to all others.
  static void* operator new(size_t bytes) {
    return pooled_memory()->allocate(bytes, PooledMemory::kAlignment);
  }
  static void operator delete(void* object, size_t bytes) {
    pooled_memory()->deallocate(object, bytes, PooledMemory::kAlignment);
  }

 protected:
  ~Pooled() = default;
};

}  // namespace uroce
