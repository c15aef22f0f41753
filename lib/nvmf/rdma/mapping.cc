// Where the device has bus addresses (urocedv.h) memory is mapped for DMA in the one direction that it is
// used in. The device reads responses and namespaces, writes receive buffers, and does both with staging
// buffers. So a mistake in a work request cannot make the device write to a namespace. On other libraries'
// devices it is plain regions.
#include "nvmf/rdma/mapping.h"

#include <cerrno>
#include <cstring>
#include <string>

namespace uroce::nvmf {

Result<RdmaMapping> RdmaMapping::map(const DirectVerbs& verbs, ibv_context& context,
                                     std::span<std::byte> memory, urocedv_dma_direction direction) {
  const uint64_t address = verbs.map(&context, memory.data(), memory.size(), direction);
  if (urocedv_dma_mapping_error(&context, address) != 0) {
    const int code = errno != 0 ? errno : ENOMEM;
    return Error{code, std::string("cannot map memory for DMA: ") + std::strerror(code)};
  }
  return RdmaMapping(verbs, context, address, memory.size(), direction);
}

}  // namespace uroce::nvmf
