#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "service/service.h"
#include "tests/unit/ports/temporary_folder.h"
#include "tests/unit/service/fake_program.h"

namespace uroce::testing {

/// A device that leads nowhere, with the name uroce0 and the address kDeviceAddress.
engine::Configuration one_device();

/// A service with one device, which leads nowhere, in a thread of this process.
class RunningService {
 public:
  explicit RunningService(service::ServiceConfiguration configuration = {},
                          service::Service::Reload reload = nullptr);
  ~RunningService();

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] service::Service& service() { return *service_; }
  [[nodiscard]] std::shared_ptr<engine::Device> device() { return *stack_->open(0); }
  /// It has ended of itself within ten seconds.
  bool ends();

 private:
  TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/own/service.sock";
  std::shared_ptr<engine::Stack> stack_;
  std::unique_ptr<service::Service> service_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

}  // namespace uroce::testing
