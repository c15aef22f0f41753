#include "nvmf/rdma/device.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace uroce::nvmf {

Result<std::unique_ptr<RdmaDevice>> RdmaDevice::open(ibv_context& context,
                                                     std::shared_ptr<RdmaRegions> regions) {
  std::unique_ptr<RdmaDevice> device(new RdmaDevice(context, std::move(regions)));
  const std::string name = context.device->name;
  if (const int error = ibv_query_device(&context, &device->attributes_); error != 0)
    return Error{error, name + ": cannot be queried: " + std::strerror(error)};
  // Asynchronous events are read when there are any, never waited for.
  const int flags = fcntl(context.async_fd, F_GETFL);
  if (flags < 0 || fcntl(context.async_fd, F_SETFL, flags | O_NONBLOCK) != 0)
    return Error{errno, name + ": asynchronous events: " + std::strerror(errno)};
  ibv_pd* domain = ibv_alloc_pd(&context);
  if (domain == nullptr) return Error{errno, name + ": no protection domain: " + std::strerror(errno)};
  if (const Status status = device->regions_->add_domain(*domain); !status) {
    ibv_dealloc_pd(domain);
    return Error{status.error().code, name + ": " + status.error().message};
  }
  device->domain_.reset(domain);
  return device;
}

RdmaDevice::~RdmaDevice() {
  if (domain_ != nullptr) regions_->remove_domain(*domain_);
}

}  // namespace uroce::nvmf
