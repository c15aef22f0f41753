#include "rdmacm/id.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace uroce::rdmacm {
Group* Id::find_group(const Gid& group) {
  const auto found = std::ranges::find(groups, group, &Group::address);
  return found == groups.end() ? nullptr : &*found;
}

wire::ServiceId Id::remote_service() const {
  return remote.family == AF_IB ? wire::ServiceId{remote.ib.service} : wire::service_of(space(), remote.port);
}

void show_addresses(Id& id) {
  for (SocketAddress* const address : {&id.local, &id.remote})
    if (id.device != nullptr && address->has_zone()) address->zone = id.device->zone();
  write_address(id.local, id.route.addr.src_storage);
  write_address(id.remote, id.route.addr.dst_storage);
}

void attach(Id& id, CmDevice& device) {
  id.device = &device;
  id.verbs = device.verbs();
  id.port_num = 1;
  id.pd = device.default_domain();
  show_addresses(id);
}

ibv_ah_attr address_vector(const Id& id, const cm::Address& way) {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.sl = way.service_level;
  std::memcpy(attr.grh.dgid.raw, way.remote.bytes.data(), sizeof(attr.grh.dgid));
  attr.grh.sgid_index = static_cast<uint8_t>(id.device->device().gids().find(way.local).value_or(0));
  attr.grh.hop_limit = way.hop_limit;
  attr.grh.traffic_class = way.traffic_class;
  attr.grh.flow_label = way.flow_label;
  return attr;
}

void set_depths(Id& id, uint8_t initiator_depth, uint8_t responder_resources) {
  id.initiator_depth = std::min(initiator_depth, engine::Limits::kReadsSent);
  id.responder_resources = std::min(responder_resources, engine::Limits::kReadsAnswered);
}

int returned(int error) {
  if (error == 0) return 0;
  errno = error;
  return -1;
}

}  // namespace uroce::rdmacm
