#include "tests/unit/service/running_service.h"

#include "tests/support/soon.h"

namespace uroce::testing {

engine::Configuration one_device() {
  engine::DeviceConfiguration device;
  device.mac = kDeviceMac;
  device.addresses = {{kDeviceAddress, 24}};
  engine::Configuration configuration;
  configuration.devices.push_back(device);
  configuration.hugepages = false;
  return configuration;
}

RunningService::RunningService(service::ServiceConfiguration configuration, service::Service::Reload reload)
    : stack_(std::move(*engine::Stack::create(one_device()))) {
  auto socket = service::ListeningSocket::open({.path = path_});
  service_ = std::move(*service::Service::create(
      std::move(*socket), {.configuration = std::move(configuration), .reload = std::move(reload)}));
  const Status added = service_->add(stack_, 0);
  EXPECT_TRUE(added) << (added ? "" : added.error().message);
  thread_ = std::thread([this] {
    service_->run();
    ended_ = true;
  });
}

RunningService::~RunningService() {
  service_->request_stop();
  thread_.join();
}

bool RunningService::ends() {
  return soon([this] { return ended_.load(); });
}

}  // namespace uroce::testing
