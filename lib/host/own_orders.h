#pragma once

#include <cstddef>
#include <utility>

#include "base/values/result.h"
#include "host/orders_format.h"
#include "host/shared_memory.h"

namespace uroce::host {

/// Where tools order things of this process; its end takes it away from them.
class OwnOrders {
 public:
  /// EMFILE, ENOMEM, ENOSYS.
  static Result<OwnOrders> make();
  OwnOrders(OwnOrders&&) = default;
  OwnOrders& operator=(OwnOrders&&) = delete;
  ~OwnOrders();

  [[nodiscard]] OrdersMemory& memory() const { return *reinterpret_cast<OrdersMemory*>(mapping_.data()); }
  /// A tool holds kCaptureLock.
  [[nodiscard]] bool has_capturer() const;

 private:
  explicit OwnOrders(OpenMemory memory)
      : descriptor_(std::move(memory.descriptor)), mapping_(std::move(memory.mapping)) {}

  HeldDescriptor descriptor_;
  Mapping mapping_;
};

}  // namespace uroce::host
