#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/values/identifiers.h"
#include "base/values/result.h"
#include "port/port.h"
#include "port/specification.h"

namespace uroce::drivers {

/// "host[,socket=PATH][,device=NAME][,icrc=uplink|full][,queue_pairs=N]": a device of this host's service,
/// which other programs use at the same time. Without EAL.
bool is_host(std::string_view devargs);

/// The service that is not there is started when the devargs name no socket.
Result<std::unique_ptr<port::Port>> open_host(const port::Specification& specification);

/// A device of the service.
struct ServiceDevice {
  std::string name;
  MacAddress mac;
  std::string interface;       // the kernel's that it goes through; empty: none in this network namespace
  std::vector<Gid> addresses;  // as ListedDevice has them
};
/// All devices of the service that the devargs name, which is started as by open_host().
Result<std::vector<ServiceDevice>> devices_of_service(std::string_view devargs);

}  // namespace uroce::drivers
