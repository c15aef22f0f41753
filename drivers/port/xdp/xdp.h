#pragma once

#include <memory>

#include "base/values/result.h"
#include "port/port.h"
#include "port/specification.h"

namespace uroce::drivers {

/// A port beside the kernel on one of its interfaces (Specification::kernels_interface), by AF_XDP and a
/// program of ours that takes RoCE to the addresses of Port::follow_addresses() alone. Errors begin with the
/// interface's name and say what is missing: ENOTSUP (kernel, build, queues), EPERM, EMSGSIZE (MTU), EBUSY
/// (another XDP program, another AF_XDP socket).
Result<std::unique_ptr<port::Port>> open_xdp(const port::Specification& specification);

}  // namespace uroce::drivers
