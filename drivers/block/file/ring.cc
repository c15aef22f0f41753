#include "drivers/block/file/ring.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

namespace uroce::drivers {
namespace {

constexpr size_t kPartBytesMax = 1u << 30;  // that the kernel takes as one buffer
constexpr size_t kPartsMax = 1u << 14;

constexpr std::array kOperations = {IORING_OP_READ,   IORING_OP_WRITE,      IORING_OP_READV,
                                    IORING_OP_WRITEV, IORING_OP_READ_FIXED, IORING_OP_WRITE_FIXED,
                                    IORING_OP_FSYNC,  IORING_OP_FALLOCATE};

Error no_ring(int error) {
  std::string why = strerrordesc_np(error);
  if (error == EPERM) {
    std::string disabled = "?";
    std::ifstream("/proc/sys/kernel/io_uring_disabled") >> disabled;
    why = "forbidden (kernel.io_uring_disabled is " + disabled +
          "; a container's seccomp profile may forbid it, too)";
  } else if (error == ENOSYS) {
    why = "not there (the kernel was built without it, or a container's seccomp profile hides it)";
  } else if (error == ENOMEM) {
    why = "no memory (before Linux 5.12: RLIMIT_MEMLOCK)";
  }
  return {error, "io_uring: " + why};
}

}  // namespace

Result<Ring> open_ring(uint32_t entries) {
  // The poller comes by often enough: no interrupt has to fetch it. Kernels before 5.19 know but
  // interrupts. Not DEFER_TASKRUN, as another thread than the poller may end a queue.
  for (const unsigned flags : {IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG, 0u}) {
    auto ring = std::make_unique<io_uring>();
    const int result = io_uring_queue_init(entries, ring.get(), flags);
    if (result == 0) return Ring(ring.release());
    if (result != -EINVAL) return no_ring(-result);
  }
  return no_ring(EINVAL);
}

Status probe_ring() {
  const Result<Ring> ring = open_ring(1);
  if (!ring) return ring.error();
  const std::unique_ptr<io_uring_probe, decltype(&io_uring_free_probe)> probe(
      io_uring_get_probe_ring(ring->get()), io_uring_free_probe);
  const auto known = [&](io_uring_op operation) {
    return probe != nullptr && io_uring_opcode_supported(probe.get(), operation) != 0;
  };
  if (!std::ranges::all_of(kOperations, known))
    return Error{ENOSYS, "io_uring: too old (Linux 5.6 is needed)"};
  return {};
}

RegisteredBuffers::RegisteredBuffers(io_uring* ring, std::span<const std::span<std::byte>> buffers) {
  for (std::span<std::byte> left : buffers) {
    while (!left.empty()) {
      const std::span<std::byte> part = left.first(std::min(left.size(), kPartBytesMax));
      parts_.push_back({part.data(), part.size()});
      left = left.subspan(part.size());
    }
  }
  std::ranges::sort(parts_, {}, &iovec::iov_base);
  if (parts_.empty() || parts_.size() > kPartsMax ||
      io_uring_register_buffers(ring, parts_.data(), static_cast<unsigned>(parts_.size())) != 0)
    parts_.clear();
}

std::optional<uint16_t> RegisteredBuffers::index_of(const void* address, size_t length) const {
  const auto after = std::ranges::upper_bound(parts_, address, {},
                                              [](const iovec& part) -> const void* { return part.iov_base; });
  if (after == parts_.begin()) return std::nullopt;
  const iovec& part = *std::prev(after);
  const auto offset = static_cast<size_t>(static_cast<const std::byte*>(address) -
                                          static_cast<const std::byte*>(part.iov_base));
  if (offset > part.iov_len || length > part.iov_len - offset) return std::nullopt;
  return static_cast<uint16_t>(std::prev(after) - parts_.begin());
}

}  // namespace uroce::drivers
