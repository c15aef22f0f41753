#include "apps/perf/ends/objects.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "client/failure.h"

namespace uroce::perf {

int access_for(const client::VerbsDevice& device) {
  return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
         (device.has_atomics() ? IBV_ACCESS_REMOTE_ATOMIC : 0);
}

void expect_room(const client::VerbsDevice& device, uint32_t depth) {
  const auto requests_max = static_cast<uint32_t>(device.limits.max_qp_wr);
  if (depth > requests_max)
    throw client::Failure(
        fmt::format("--depth {}: {} holds {} requests per queue", depth, device.name, requests_max));
}

client::ProtectionDomain domain_on(const client::VerbsDevice& device) {
  client::ProtectionDomain domain(ibv_alloc_pd(device.context.get()));
  if (!domain) throw client::failed("ibv_alloc_pd on " + device.name, errno);
  return domain;
}

client::CompletionQueue completions_on(const client::VerbsDevice& device, uint32_t entries) {
  client::CompletionQueue completions(
      ibv_create_cq(device.context.get(), static_cast<int>(entries), nullptr, nullptr, 0));
  if (!completions)
    throw client::failed(fmt::format("ibv_create_cq of {} entries on {}", entries, device.name), errno);
  return completions;
}

client::Buffer zeroed(uint64_t bytes) {
  constexpr size_t kPage = 4096;
  client::Buffer buffer(
      static_cast<std::byte*>(std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage)));
  if (!buffer) throw client::Failure(fmt::format("no memory for a buffer of {} bytes", bytes));
  std::memset(buffer.get(), 0, bytes);
  return buffer;
}

client::MemoryRegion region_on(const client::VerbsDevice& device, ibv_pd* domain,
                               const client::Buffer& buffer, uint64_t bytes) {
  client::MemoryRegion region(ibv_reg_mr(domain, buffer.get(), bytes, access_for(device)));
  if (!region) throw client::failed(fmt::format("ibv_reg_mr of {} bytes on {}", bytes, device.name), errno);
  return region;
}

}  // namespace uroce::perf
