// Decision: an address of AF_IB is a GID with a service id, since libfabric names devices so. The private
// data then carry no addresses.
#include "rdmacm/socket_address.h"

#include <endian.h>
#include <infiniband/ib.h>
#include <netinet/in.h>

#include <cstring>

#include "net/link_scope.h"

namespace uroce::rdmacm {

bool SocketAddress::has_zone() const { return family == AF_INET6 && net::is_of_link_scope(address); }

std::optional<wire::PortSpace> port_space_of(const IbAddress& address, rdma_port_space ps) {
  constexpr uint64_t kSpaceBits = ~uint64_t{0xFFFF};
  const uint64_t mask = address.service_mask & kSpaceBits;
  const auto may_be = [&](wire::PortSpace space) {
    return (address.service & mask) == (wire::service_of(space, 0).value & mask);
  };
  using wire::PortSpace;
  if (ps == RDMA_PS_IB && may_be(PortSpace::kIb)) return PortSpace::kIb;
  if ((ps == RDMA_PS_IB || ps == RDMA_PS_TCP) && may_be(PortSpace::kTcp)) return PortSpace::kTcp;
  if ((ps == RDMA_PS_IB || ps == RDMA_PS_UDP) && may_be(PortSpace::kUdp)) return PortSpace::kUdp;
  return std::nullopt;
}

std::optional<SocketAddress> read_address(const sockaddr* from) {
  if (from == nullptr) return std::nullopt;
  SocketAddress address{.family = from->sa_family};
  // Programs give room of any alignment.
  if (from->sa_family == AF_INET) {
    sockaddr_in in;
    std::memcpy(&in, from, sizeof(in));
    std::array<uint8_t, 4> bytes;
    std::memcpy(bytes.data(), &in.sin_addr, bytes.size());
    address.address = Gid::from_ipv4(bytes);
    address.port = ntohs(in.sin_port);
    return address;
  }
  if (from->sa_family == AF_INET6) {
    sockaddr_in6 in6;
    std::memcpy(&in6, from, sizeof(in6));
    std::memcpy(address.address.bytes.data(), &in6.sin6_addr, address.address.bytes.size());
    address.port = ntohs(in6.sin6_port);
    if (address.has_zone()) address.zone = in6.sin6_scope_id;
    return address;
  }
  if (from->sa_family == AF_IB) {
    sockaddr_ib ib;
    std::memcpy(&ib, from, sizeof(ib));
    std::memcpy(address.address.bytes.data(), &ib.sib_addr, address.address.bytes.size());
    address.ib = {.partition_key = ntohs(ib.sib_pkey),
                  .flow_information = ntohl(ib.sib_flowinfo),
                  .service = be64toh(ib.sib_sid),
                  .service_mask = be64toh(ib.sib_sid_mask),
                  .scope = ib.sib_scope_id};
    address.port = static_cast<uint16_t>(address.ib.service & address.ib.service_mask);
    return address;
  }
  return std::nullopt;
}

void write_address(const SocketAddress& from, sockaddr_storage& to) {
  std::memset(&to, 0, sizeof(to));
  if (from.family == AF_INET) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(from.port);
    std::memcpy(&in.sin_addr, from.address.bytes.data() + 12, sizeof(in.sin_addr));
    std::memcpy(&to, &in, sizeof(in));
  } else if (from.family == AF_IB) {
    sockaddr_ib ib{};
    ib.sib_family = AF_IB;
    ib.sib_pkey = htons(from.ib.partition_key);
    ib.sib_flowinfo = htonl(from.ib.flow_information);
    std::memcpy(&ib.sib_addr, from.address.bytes.data(), sizeof(ib.sib_addr));
    ib.sib_sid = htobe64(from.ib.service);
    ib.sib_sid_mask = htobe64(from.ib.service_mask);
    ib.sib_scope_id = from.ib.scope;
    std::memcpy(&to, &ib, sizeof(ib));
  } else {
    sockaddr_in6 in6{};
    in6.sin6_family = AF_INET6;
    in6.sin6_port = htons(from.port);
    std::memcpy(&in6.sin6_addr, from.address.bytes.data(), sizeof(in6.sin6_addr));
    in6.sin6_scope_id = from.zone;
    std::memcpy(&to, &in6, sizeof(in6));
  }
}

socklen_t address_length(sa_family_t family) {
  if (family == AF_INET) return sizeof(sockaddr_in);
  return family == AF_INET6 ? sizeof(sockaddr_in6) : 0;
}

}  // namespace uroce::rdmacm
