#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/values/identifiers.h"
#include "wire/big_endian.h"
#include "wire/cm_message.h"

// The additional information of a REJ. The reasons of this stack that have one: 4, 12 and 26.
namespace uroce::cm {

/// What a REJ says in addition to its reason; of no bytes for a reason that has nothing to add.
struct RejectInformation {
  std::array<std::byte, sizeof(Gid)> bytes{};
  uint8_t length = 0;
};

/// Reason 4, time-out: the sender's channel adapter. A peer that has sent a REQ and heard no answer cannot
/// name our end of the connection; Linux finds it by this GUID and the sender's number alone.
inline RejectInformation information_of_timeout(uint64_t ca_guid) {
  RejectInformation information{.length = sizeof ca_guid};
  wire::store_be64(information.bytes.data(), ca_guid);
  return information;
}

/// Reason 12, invalid GID: one that would be accepted.
inline RejectInformation information_of_gid(const Gid& acceptable) {
  RejectInformation information{.length = sizeof acceptable.bytes};
  std::ranges::copy(std::as_bytes(std::span(acceptable.bytes)), information.bytes.begin());
  return information;
}

/// Reason 26, invalid path MTU: the largest that would be accepted, in the upper four bits.
inline RejectInformation information_of_mtu(PathMtu acceptable) {
  RejectInformation information{.length = 1};
  information.bytes[0] = static_cast<std::byte>(static_cast<uint8_t>(acceptable) << 4);
  return information;
}

inline void set_information(wire::CmRej& rej, const RejectInformation& information) {
  rej.information_length = information.length;
  std::ranges::copy(std::span(information.bytes).first(information.length), rej.information.begin());
}

}  // namespace uroce::cm
