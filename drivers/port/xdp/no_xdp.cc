#include <cerrno>

#include "drivers/port/xdp/xdp.h"

namespace uroce::drivers {

/// In builds without clang's bpf target or libbpf.
Result<std::unique_ptr<port::Port>> open_xdp(const port::Specification& specification) {
  return Error{ENOTSUP, specification.kernels_interface +
                            ": this build has no AF_XDP (it needs clang and libbpf-dev)"};
}

}  // namespace uroce::drivers
