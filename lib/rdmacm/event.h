#pragma once

#include <rdma/rdma_cma.h>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/values/identifiers.h"
#include "cm/connection.h"
#include "wire/ip_cm.h"

namespace uroce::rdmacm {

class CmDevice;
struct Id;

/// What a REQ or SIDR_REQ asks for, until rdma_get_cm_event makes an id of it.
struct Request {
  CmDevice* device;
  cm::CommId comm;
  cm::Address way;
  wire::IpCmHeader header;
  bool by_gid = false;  // of a listener at an address of AF_IB; then there is no header
  uint16_t port = 0;    // of ours
  bool datagram = false;
  wire::CmReq req;  // of a connection
  ibv_ece ece{};
};

/// Behind rdma_cm_event. Made by pollers and calls, owned by the channel until rdma_get_cm_event, then by the
/// program until rdma_ack_cm_event.
struct Event : rdma_cm_event {
  Event() : rdma_cm_event{} {}

  Id* owner = nullptr;  // whose program acknowledges it: `id`, or the listener
  Gid group;            // that was joined
  std::array<std::byte, 256> private_data{};
  std::unique_ptr<Request> request;

  /// Keeps as many bytes as a message of its kind has, whatever the peer put in.
  void keep_connection_data(std::span<const std::byte> data);
  void keep_datagram_data(std::span<const std::byte> data);
};

inline Event& object(rdma_cm_event* event) { return *static_cast<Event*>(event); }

std::unique_ptr<Event> make_event(rdma_cm_event_type type, int status = 0);

}  // namespace uroce::rdmacm
