#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "base/values/identifiers.h"
#include "base/values/sequence_number.h"
#include "wire/mad.h"

// The messages of the InfiniBand communication manager as values (lib/README.md, wire fact 10).
namespace uroce::wire {

/// Names one end of a connection to its peer; chosen by that end, 0 is none.
struct CommId {
  uint32_t value = 0;
  [[nodiscard]] constexpr auto operator<=>(const CommId&) const = default;
};

/// What listens: with rdma_cm a port space and a port.
struct ServiceId {
  uint64_t value = 0;
  [[nodiscard]] constexpr auto operator<=>(const ServiceId&) const = default;
};

template <size_t N>
using PrivateData = std::array<std::byte, N>;

enum class CmTransport : uint8_t { kRc = 0, kUc = 1, kReserved = 2, kExtended = 3 };

/// One of the two paths that a REQ names. On RoCE there are no LIDs; Linux says 0xFFFF.
struct CmPath {
  uint16_t local_lid = 0;
  uint16_t remote_lid = 0;
  Gid local_gid{};
  Gid remote_gid{};
  uint32_t flow_label = 0;  // 20 bits
  uint8_t packet_rate = 0;  // 6 bits
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  uint8_t service_level = 0;  // 4 bits
  bool subnet_local = false;
  uint8_t ack_timeout = 0;  // 5 bits: 4.096 us times 2 to it
};

/// Which message a MRA or REJ answers.
enum class CmAnswered : uint8_t { kReq = 0, kRep = 1, kOther = 2 };

/// Why a REJ refuses. Others than these pass through unchanged.
enum class RejectReason : uint16_t {
  kNoQp = 1,
  kNoResources = 3,
  kTimeout = 4,
  kUnsupported = 5,
  kInvalidCommId = 6,
  kInvalidCommInstance = 7,
  kInvalidServiceId = 8,  // no listener
  kInvalidTransport = 9,
  kStaleConnection = 10,
  kInvalidGid = 12,
  kInvalidMtu = 26,
  kInsufficientResponderResources = 27,
  kConsumerDefined = 28,
  kDuplicateCommId = 30,
  kClassVersion = 31,
  kVendorOption = 35,
};

struct CmReq {
  CommId local{};
  uint32_t vendor_id = 0;  // 24 bits
  ServiceId service{};
  uint64_t ca_guid = 0;
  uint32_t qkey = 0;
  QpNumber qp{};
  uint8_t responder_resources = 0;
  uint32_t local_eecn = 0;  // 24 bits
  uint8_t initiator_depth = 0;
  uint32_t remote_eecn = 0;                 // 24 bits
  uint8_t remote_cm_response_timeout = 20;  // 5 bits: 4.096 us times 2 to it
  CmTransport transport = CmTransport::kRc;
  bool flow_control = false;  // end to end
  Psn starting_psn{};
  uint8_t local_cm_response_timeout = 20;
  uint8_t retry_count = 0;  // 3 bits
  uint16_t partition_key = 0xFFFF;
  uint8_t path_mtu = 0;  // 4 bits, the code of PathMtu if it is one
  bool rdc_exists = false;
  uint8_t rnr_retry_count = 0;  // 3 bits
  uint8_t max_cm_retries = 0;   // 4 bits
  bool srq = false;
  uint8_t extended_transport = 0;  // 3 bits; 1 with kExtended is XRC
  CmPath primary{};
  CmPath alternate{};
  PrivateData<92> private_data{};
};

struct CmRep {
  CommId local{};
  CommId remote{};
  uint32_t qkey = 0;
  QpNumber qp{};
  uint32_t local_eecn = 0;  // 24 bits; with XRC the number of the answering queue pair
  Psn starting_psn{};
  uint32_t vendor_id = 0;  // 24 bits
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t target_ack_delay = 0;  // 5 bits
  uint8_t failover_accepted = 0;
  bool flow_control = false;
  uint8_t rnr_retry_count = 0;  // 3 bits
  bool srq = false;
  uint64_t ca_guid = 0;
  PrivateData<196> private_data{};
};

struct CmRtu {
  CommId local{};
  CommId remote{};
  PrivateData<224> private_data{};
};

struct CmMra {
  CommId local{};
  CommId remote{};
  CmAnswered answered = CmAnswered::kReq;
  uint8_t service_timeout = 0;  // 5 bits
  PrivateData<222> private_data{};
};

struct CmRej {
  CommId local{};
  CommId remote{};
  CmAnswered answered = CmAnswered::kReq;
  uint8_t information_length = 0;  // 7 bits
  RejectReason reason = RejectReason::kConsumerDefined;
  std::array<std::byte, 72> information{};
  PrivateData<148> private_data{};
};

struct CmDreq {
  CommId local{};
  CommId remote{};
  QpNumber remote_qp{};
  PrivateData<220> private_data{};
};

struct CmDrep {
  CommId local{};
  CommId remote{};
  PrivateData<224> private_data{};
};

struct CmSidrReq {
  CommId request{};
  uint16_t partition_key = 0xFFFF;
  ServiceId service{};
  PrivateData<216> private_data{};
};

enum class SidrStatus : uint8_t {
  kSuccess = 0,
  kUnsupported = 1,
  kReject = 2,
  kNoQp = 3,
  kRedirect = 4,
  kVersion = 5
};

struct CmSidrRep {
  CommId request{};
  SidrStatus status = SidrStatus::kSuccess;
  uint8_t information_length = 0;
  QpNumber qp{};
  ServiceId service{};
  uint32_t qkey = 0;
  std::array<std::byte, 72> information{};
  PrivateData<136> private_data{};
};

/// Load alternate path. Only what an answer needs: there are no alternate paths here.
struct CmLap {
  CommId local{};
  CommId remote{};
  QpNumber remote_qp{};
  uint8_t remote_cm_response_timeout = 0;  // 5 bits
  CmPath alternate{};
  PrivateData<168> private_data{};
};

enum class AprStatus : uint8_t { kSuccess = 0, kInvalidCommId = 1, kUnsupported = 2, kReject = 3 };

struct CmApr {
  CommId local{};
  CommId remote{};
  uint8_t information_length = 0;
  AprStatus status = AprStatus::kUnsupported;
  std::array<std::byte, 72> information{};
  PrivateData<148> private_data{};
};

using CmMessage =
    std::variant<CmReq, CmMra, CmRej, CmRep, CmRtu, CmDreq, CmDrep, CmSidrReq, CmSidrRep, CmLap, CmApr>;

/// A message in its datagram.
struct CmMad {
  uint64_t transaction_id = 0;
  uint32_t ece_options = 0;  // of REQ and REP; 0 in all others
  CmMessage message;
};

/// Why a datagram is no message of the communication manager.
enum class CmParse : uint8_t { kOk, kLength, kBaseVersion, kClass, kClassVersion, kMethod, kAttribute };

/// Whatever the bytes are: `mad` is set only with kOk. Fields are as on the wire, not yet sensible.
CmParse parse_cm(std::span<const std::byte> bytes, CmMad& mad);

/// Writes kMadBytes; reserved bits are 0.
void write_cm(std::byte* to, const CmMad& mad);

}  // namespace uroce::wire
