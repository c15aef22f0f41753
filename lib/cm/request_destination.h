#pragma once

#include <cstddef>

#include "base/values/identifiers.h"
#include "wire/ip_cm.h"

namespace uroce::cm {

/// The address that a REQ or SIDR_REQ is for, of which `data` is the private data: the packet's destination.
/// With rdma_cm a host reaches itself at a loopback address as well, which then stands in the private data of
/// a packet from one of our addresses to the same.
template <size_t N>
Gid request_destination(const Gid& packet_destination, const Gid& packet_source,
                        const wire::PrivateData<N>& data) {
  if (packet_destination != packet_source) return packet_destination;
  const auto header = wire::parse_ip_cm(data);
  return header && header->destination.is_loopback() ? header->destination : packet_destination;
}

}  // namespace uroce::cm
