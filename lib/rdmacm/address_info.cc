// rdma_getaddrinfo: names and numbers through the system's getaddrinfo.
#include <netdb.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "rdmacm/socket_address.h"
#include "verbs/calls/export.h"

namespace uroce::rdmacm {
namespace {

constexpr int kFlags = RAI_PASSIVE | RAI_NUMERICHOST | RAI_NOROUTE | RAI_FAMILY;

struct Kind {
  int qp_type = IBV_QPT_RC;
  int port_space = RDMA_PS_TCP;
};

bool is_datagram(int port_space) { return port_space == RDMA_PS_UDP || port_space == RDMA_PS_IPOIB; }

/// What the hints leave open follows from what they say. EAI_*.
int choose_kind(const rdma_addrinfo& hints, Kind& kind) {
  if (hints.ai_port_space != 0) {
    kind.port_space = hints.ai_port_space;
    kind.qp_type = is_datagram(hints.ai_port_space) ? IBV_QPT_UD : IBV_QPT_RC;
  } else if (hints.ai_qp_type == IBV_QPT_UD) {
    kind.port_space = RDMA_PS_UDP;
  }
  if (hints.ai_qp_type != 0) kind.qp_type = hints.ai_qp_type;
  // EAI_QPTYPE of the manual is no code of this system's.
  return is_datagram(kind.port_space) == (kind.qp_type == IBV_QPT_UD) ? 0 : EAI_SOCKTYPE;
}

/// A copy that rdma_freeaddrinfo frees. False: there is no memory.
bool copy(const sockaddr* from, socklen_t length, sockaddr*& to, socklen_t& to_length) {
  if (from == nullptr || length == 0) return true;
  to = static_cast<sockaddr*>(std::malloc(length));
  if (to == nullptr) return false;
  std::memcpy(to, from, length);
  to_length = length;
  return true;
}

void free_list(rdma_addrinfo* list) {
  while (list != nullptr) {
    rdma_addrinfo* const next = list->ai_next;
    std::free(list->ai_src_addr);
    std::free(list->ai_dst_addr);
    std::free(list->ai_src_canonname);
    std::free(list->ai_dst_canonname);
    std::free(list);
    list = next;
  }
}

struct ListDeleter {
  void operator()(rdma_addrinfo* list) const { free_list(list); }
};
struct SystemListDeleter {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

/// The first address that the system finds. EAI_*.
int look_up(const char* node, const char* service, const rdma_addrinfo& hints, const Kind& kind,
            std::unique_ptr<addrinfo, SystemListDeleter>& found) {
  addrinfo wanted{};
  wanted.ai_socktype = is_datagram(kind.port_space) ? SOCK_DGRAM : SOCK_STREAM;
  if ((hints.ai_flags & RAI_PASSIVE) != 0) wanted.ai_flags |= AI_PASSIVE;
  if ((hints.ai_flags & RAI_NUMERICHOST) != 0) wanted.ai_flags |= AI_NUMERICHOST;
  if ((hints.ai_flags & RAI_FAMILY) != 0) wanted.ai_family = hints.ai_family;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(node, service, &wanted, &list);
  found.reset(list);
  return error;
}

int get_address_info(const char* node, const char* service, const rdma_addrinfo* given,
                     rdma_addrinfo*& result) {
  const rdma_addrinfo hints = given != nullptr ? *given : rdma_addrinfo{};
  if ((hints.ai_flags & ~kFlags) != 0) return EAI_BADFLAGS;
  if (node == nullptr && service == nullptr && given == nullptr) return EAI_NONAME;
  Kind kind;
  if (const int error = choose_kind(hints, kind); error != 0) return error;
  std::unique_ptr<rdma_addrinfo, ListDeleter> info(
      static_cast<rdma_addrinfo*>(std::calloc(1, sizeof(rdma_addrinfo))));
  if (info == nullptr) return EAI_MEMORY;
  info->ai_flags = hints.ai_flags;
  info->ai_qp_type = kind.qp_type;
  info->ai_port_space = kind.port_space;
  info->ai_family = hints.ai_family;
  const bool passive = (hints.ai_flags & RAI_PASSIVE) != 0;
  bool copied = true;
  if (node != nullptr || service != nullptr) {
    std::unique_ptr<addrinfo, SystemListDeleter> found;
    if (const int error = look_up(node, service, hints, kind, found); error != 0) return error;
    if (address_length(static_cast<sa_family_t>(found->ai_family)) == 0) return EAI_FAMILY;
    info->ai_family = found->ai_family;
    copied = passive ? copy(found->ai_addr, found->ai_addrlen, info->ai_src_addr, info->ai_src_len)
                     : copy(found->ai_addr, found->ai_addrlen, info->ai_dst_addr, info->ai_dst_len);
  }
  if (info->ai_src_addr == nullptr)
    copied = copied && copy(hints.ai_src_addr, hints.ai_src_len, info->ai_src_addr, info->ai_src_len);
  if (info->ai_dst_addr == nullptr)
    copied = copied && copy(hints.ai_dst_addr, hints.ai_dst_len, info->ai_dst_addr, info->ai_dst_len);
  if (!copied) return EAI_MEMORY;
  result = info.release();
  return 0;
}

}  // namespace
}  // namespace uroce::rdmacm

using namespace uroce::rdmacm;

extern "C" {

UROCE_EXPORT int uroce_rdma_getaddrinfo(const char* node, const char* service, const rdma_addrinfo* hints,
                                        rdma_addrinfo** result) {
  return get_address_info(node, service, hints, *result);
}

UROCE_EXPORT void uroce_rdma_freeaddrinfo(rdma_addrinfo* list) { free_list(list); }

}  // extern "C"
