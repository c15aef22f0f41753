#include "nvmf/rdma/private_data.h"

#include <cstring>

namespace uroce::nvmf {

std::variant<RdmaQueueRequest, RdmaRefusal> check_request(std::span<const std::byte> private_data,
                                                          const RdmaQueueLimits& limits) {
  // The communication manager hands over all its room for private data, more than was sent.
  RdmaRequestData data{};
  if (private_data.size() < sizeof(data)) return RdmaRefusal::kPrivateDataLength;
  std::memcpy(&data, private_data.data(), sizeof(data));
  if (data.record_format != 0) return RdmaRefusal::kRecordFormat;
  if (data.qid > limits.qid_max) return RdmaRefusal::kQid;
  const uint32_t entries = uint32_t{data.host_send_size} + 1;
  const uint32_t entries_max = data.qid == 0 ? limits.admin_entries_max : limits.io_entries_max;
  // A submission queue has two entries at least (NVMe 1.4, section 4.1.3).
  if (entries < 2 || entries > entries_max) return RdmaRefusal::kHostSendSize;
  // One entry of a full queue is empty: so many completions may be on their way.
  if (data.host_receive_size < entries - 1) return RdmaRefusal::kHostReceiveSize;
  return RdmaQueueRequest{data.qid, entries};
}

}  // namespace uroce::nvmf
