#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

namespace uroce::nvmf {

// What host and target tell each other while they connect (NVMe-oF 1.1, section 7.3.6.4), little-endian.

/// In the host's request.
struct RdmaRequestData {
  uint16_t record_format;
  uint16_t qid;                // 0: admin
  uint16_t host_receive_size;  // entries of the host's receive queue
  uint16_t host_send_size;     // commands that the host sends, 0 is one
  uint16_t controller_id;      // of an I/O queue; Connect says it, too
  uint8_t reserved10[22];
};
static_assert(sizeof(RdmaRequestData) == 32);

/// In our acceptance.
struct RdmaAcceptData {
  uint16_t record_format;
  uint16_t controller_receive_size;  // entries of our receive queue
  uint8_t reserved4[28];
};
static_assert(sizeof(RdmaAcceptData) == 32);

/// Why a request is refused.
enum class RdmaRefusal : uint16_t {
  kPrivateDataLength = 1,
  kRecordFormat = 2,
  kQid = 3,
  kHostSendSize = 4,
  kHostReceiveSize = 5,
  kNoResources = 6,
  kInboundReads = 7,  // the host answers no READ
  kOutboundReads = 8,
  kControllerId = 9,
};

/// In our refusal.
struct RdmaRejectData {
  uint16_t record_format;
  uint16_t status;
};
static_assert(sizeof(RdmaRejectData) == 4);

/// What a host may ask for.
struct RdmaQueueLimits {
  uint32_t admin_entries_max = 128;
  uint32_t io_entries_max = 128;
  uint16_t qid_max = 1024;
};

/// A request that can be granted.
struct RdmaQueueRequest {
  uint16_t qid = 0;
  uint32_t entries = 0;  // commands that the host may have under way
};

std::variant<RdmaQueueRequest, RdmaRefusal> check_request(std::span<const std::byte> private_data,
                                                          const RdmaQueueLimits& limits);

}  // namespace uroce::nvmf
