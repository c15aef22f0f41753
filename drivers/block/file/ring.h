#pragma once

#include <liburing.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/values/result.h"

namespace uroce::drivers {

struct CloseRing {
  void operator()(io_uring* ring) const {
    io_uring_queue_exit(ring);
    delete ring;
  }
};
using Ring = std::unique_ptr<io_uring, CloseRing>;

/// Room for `entries` submissions that were not made yet and as many completions at least. Errors name
/// io_uring: EPERM, ENOSYS (forbidden or not there), ENOMEM, EINVAL (too many entries).
Result<Ring> open_ring(uint32_t entries);

/// Says whether the kernel lets us have rings that can do what the driver asks of them. Errors as above.
Status probe_ring();

/// Memory whose pages the kernel has looked up beforehand (IORING_REGISTER_BUFFERS).
class RegisteredBuffers {
 public:
  RegisteredBuffers() = default;
  /// None when the kernel does not want them (RLIMIT_MEMLOCK, memory that is a file's): it is quicker with
  /// them, and works without.
  RegisteredBuffers(io_uring* ring, std::span<const std::span<std::byte>> buffers);

  /// The number of the one that `length` bytes at `address` lie in.
  [[nodiscard]] std::optional<uint16_t> index_of(const void* address, size_t length) const;

 private:
  std::vector<iovec> parts_;  // by address
};

}  // namespace uroce::drivers
