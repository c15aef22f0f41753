#pragma once

#include <infiniband/sa.h>
#include <rdma/rdma_cma.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/values/sequence_number.h"
#include "cm/agent.h"
#include "rdmacm/channel.h"
#include "rdmacm/device.h"
#include "rdmacm/event.h"
#include "rdmacm/socket_address.h"
#include "wire/ip_cm.h"

namespace uroce::rdmacm {

enum class IdState : uint8_t {
  kIdle,
  kBound,
  kAddressQuery,
  kAddressResolved,
  kRouteResolved,
  kListening,
  kRequested,   // by the peer; nothing is decided yet
  kConnecting,  // the peer was asked, or its request is accepted
  kReplied,     // the peer accepts; rdma_establish, or rdma_get_cm_event with a queue pair, goes on
  kConnected,
  kDisconnected,  // or never connected: refused, unanswered
};

/// What the peer said of its end of a connection.
struct Peer {
  QpNumber qp;
  Psn psn;
  uint8_t reads_from_us = 0;  // READs and atomics of the peer's under way, at most, as its REQ says
  uint8_t reads_to_it = 0;    // of ours, likewise
  uint8_t retry_count = 0;
  uint8_t rnr_retry_count = 0;
  PathMtu mtu = PathMtu::k1024;
  uint8_t ack_timeout = 0;
};

struct Group {
  Gid address;
  bool send_only = false;
  bool attached = false;
  bool heard_of = false;  // the program has taken back the event that says so
};

/// Behind rdma_cm_id. What pollers or a thread in rdma_get_cm_event look at, too, is under the core's mutex:
/// state, has_port, comm, peer, channel, unacknowledged, groups. A call may read the state without it, to
/// refuse what the state forbids: the peer can change it right afterwards as well, which the agent finds out.
struct Id : rdma_cm_id {
  Id() : rdma_cm_id{} {}

  uint64_t handle = 0;  // how pollers name it; see Core
  std::atomic<IdState> state = IdState::kIdle;
  bool has_port = false;                 // of ports(), by its handle
  CmDevice* device = nullptr;            // once it is bound to an address of one
  std::unique_ptr<Channel> own_channel;  // synchronous: calls wait for their events
  uint32_t unacknowledged = 0;           // events that were told and not taken back

  SocketAddress local;
  SocketAddress remote;
  std::optional<wire::PortSpace> ib_space;  // of a local address of AF_IB
  ibv_sa_path_rec path{};

  struct Listening {
    CmDevice* device;
    cm::ListenerId listener;
  };
  std::vector<Listening> listening;

  cm::CommId comm;  // 0: none
  cm::Address way;
  Peer peer;
  Psn psn;  // with which the peer is to begin to send
  // READs and atomics of ours and of the peer under way, at most. Of a client: what it asks for, then what
  // the REP grants. Of a server: what the REQ offers, then what rdma_accept grants.
  uint8_t initiator_depth = 0;
  uint8_t responder_resources = 0;
  uint8_t retry_count = 0;
  uint32_t datagram_qkey = wire::kRdmaUdpQkey;
  std::vector<Group> groups;

  // Options.
  uint8_t type_of_service = 0;
  std::optional<uint8_t> ack_timeout;
  bool reuse_address = false;
  bool family_only = false;
  ibv_ece local_ece{};
  ibv_ece remote_ece{};

  // Of rdma_create_ep.
  std::optional<ibv_qp_init_attr> endpoint_attributes;
  ibv_pd* endpoint_domain = nullptr;
  std::string connect_data;

  // What rdma_create_qp and rdma_create_srq made beside what they were given.
  bool owns_send_cq = false;
  bool owns_receive_cq = false;

  [[nodiscard]] bool synchronous() const { return own_channel != nullptr; }
  [[nodiscard]] wire::PortSpace space() const { return ib_space.value_or(static_cast<wire::PortSpace>(ps)); }
  /// The service that it listens at, and the peer's.
  [[nodiscard]] wire::ServiceId local_service() const { return wire::service_of(space(), local.port); }
  [[nodiscard]] wire::ServiceId remote_service() const;
  [[nodiscard]] bool is_datagram() const { return qp_type == IBV_QPT_UD; }
  /// Null: it is in no such group.
  Group* find_group(const Gid& group);
};

inline Id& object(rdma_cm_id* id) { return *static_cast<Id*>(id); }

/// How verbs say `way`, which begins at an address of the id's device.
ibv_ah_attr address_vector(const Id& id, const cm::Address& way);

/// Sets how many READs and atomics of the id, and of its peer, may be under way, as far as the device has
/// room.
void set_depths(Id& id, uint8_t initiator_depth, uint8_t responder_resources);

/// Writes `local` and `remote` to where programs read them, with the zone of the id's device where they have
/// one.
void show_addresses(Id& id);
/// Binds it to the device; `id.local` is an address of it.
void attach(Id& id, CmDevice& device);

/// 0, or -1 and errno: what the calls of rdma_cm return.
int returned(int error);

/// A synchronous id waits for the event of what was asked for, which is `id.event` then: 0, or an errno that
/// says how it ended. 0 at once for others.
int wait_if_synchronous(Id& id);

}  // namespace uroce::rdmacm
