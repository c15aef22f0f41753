#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/values/result.h"

namespace uroce::drivers {

/// Hears when the kernel wants a device back that is being removed from the machine. It waits until the
/// device is closed, so what still uses the device finds it in order.
class RemovalWatch {
 public:
  /// `device`: its name in DPDK.
  static Result<std::unique_ptr<RemovalWatch>> start(const std::string& device);
  ~RemovalWatch();
  RemovalWatch(const RemovalWatch&) = delete;
  RemovalWatch& operator=(const RemovalWatch&) = delete;

  /// Becomes true once. Any thread.
  [[nodiscard]] const std::atomic<bool>& removed() const { return removed_; }

 private:
  explicit RemovalWatch(std::string device) : device_(std::move(device)) {}

  const std::string device_;
  std::atomic<bool> removed_{false};
};

}  // namespace uroce::drivers
