// ibv_init_ah_from_wc and ibv_create_ah_from_wc take over the whole traffic class of the received datagram,
// ECN bits included, as libibverbs does: a program may read them there. One that answers through such an
// address sends them; nothing that the stack sends by itself takes them over (wire/ecn.h).
#include <cerrno>
#include <cstring>

#include "net/derived_mac.h"
#include "verbs/calls/call_guard.h"
#include "verbs/calls/export.h"
#include "verbs/calls/objects.h"
#include "verbs/calls/refusal.h"
#include "verbs/posting/requests.h"
#include "wire/service_level.h"

// Address handles. A request takes a copy of what it needs, so a handle may go as soon as the request is
// posted.

namespace uroce::verbs {

bool can_go_to(const VerbsQp& qp, const ibv_ah* ah, uint32_t number) {
  return ah != nullptr && object(ah->pd).domain == object(qp.face().pd).domain && number <= QpNumber::kMask;
}

void set_address(const VerbsQp& qp, queue::SendRequest& request, ibv_ah& face, uint32_t number,
                 uint32_t qkey) {
  const VerbsAh& ah = object(&face);
  const QpNumber from{qp.face().qp_num};
  qp.handle->send_queue.attach(
      request, address_to(ah.address, qp.owner->device->source_ports(), ah.flow_label, from, {number}, qkey));
}

namespace {

ibv_ah* create_ah(ibv_pd* pd, const ibv_ah_attr& attributes) {
  VerbsContext& context = object(pd->context);
  if (!context.alive()) return fail(EIO);
  wire::Path path;
  if (const int error = translate(attributes, context.device->gids(), path); error != 0) return fail(error);
  auto ah = std::make_unique<VerbsAh>();
  const Result<qp::DatagramAddress> address = context.device->take_address(path);
  if (!address) return fail("create_ah", address.error());
  ah->context = pd->context;
  ah->pd = pd;
  ah->address = *address;
  ah->flow_label = path.flow_label;
  object(pd).users.fetch_add(1);
  return ah.release();
}

/// The addresses in the 40 bytes before a message.
struct Received {
  Gid source;
  Gid destination;
  uint32_t flow_label = 0;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
};

/// False: there is no IP header. That of IPv4 lies in the second half.
bool read_header(const ibv_grh& grh, Received& received) {
  uint8_t bytes[sizeof(ibv_grh)];
  std::memcpy(bytes, &grh, sizeof(bytes));
  if (bytes[0] >> 4 == 6) {
    received.traffic_class = static_cast<uint8_t>(bytes[0] << 4 | bytes[1] >> 4);
    received.flow_label = (bytes[1] & 0xFu) << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
    received.hop_limit = bytes[7];
    std::memcpy(received.source.bytes.data(), bytes + 8, 16);
    std::memcpy(received.destination.bytes.data(), bytes + 24, 16);
    return true;
  }
  const uint8_t* ip = bytes + 20;
  if (ip[0] != 0x45) return false;
  received.traffic_class = ip[1];
  received.hop_limit = ip[8];
  received.source = Gid::from_ipv4({ip[12], ip[13], ip[14], ip[15]});
  received.destination = Gid::from_ipv4({ip[16], ip[17], ip[18], ip[19]});
  return true;
}

/// Our address that answers: the one that was meant or, for what came to a group, the first one of its kind.
int answering_gid(const net::GidTable& gids, const Gid& meant) {
  for (size_t i = 0; i < gids.size(); ++i) {
    if (!gids.in_use(i)) continue;
    const bool answers =
        net::is_multicast(meant) ? gids.at(i).is_ipv4() == meant.is_ipv4() : gids.at(i) == meant;
    if (answers) return static_cast<int>(i);
  }
  return -1;
}

int init_ah_from_wc(const VerbsContext& context, uint8_t port, const ibv_wc& completion, const ibv_grh& grh,
                    ibv_ah_attr& attributes) {
  if (!context.alive()) return EIO;
  Received received;
  if (port != 1 || (completion.wc_flags & IBV_WC_GRH) == 0 || !read_header(grh, received)) return EINVAL;
  const int gid = answering_gid(context.device->gids(), received.destination);
  if (gid < 0) return EINVAL;
  attributes = {};
  attributes.is_global = 1;
  attributes.port_num = port;
  attributes.sl = wire::priority_of_service_level(completion.sl).value_or(0);
  std::memcpy(attributes.grh.dgid.raw, received.source.bytes.data(), sizeof(attributes.grh.dgid.raw));
  attributes.grh.sgid_index = static_cast<uint8_t>(gid);
  attributes.grh.flow_label = received.flow_label;
  attributes.grh.traffic_class = received.traffic_class;
  attributes.grh.hop_limit = received.hop_limit;
  return 0;
}

}  // namespace

}  // namespace uroce::verbs

using namespace uroce::verbs;

extern "C" {

UROCE_EXPORT ibv_ah* uroce_ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attributes) {
  if (!all_given(pd, attributes)) return fail(EINVAL);
  return pointer_or_errno([&] { return create_ah(pd, *attributes); });
}

/// -1 and errno.
UROCE_EXPORT int uroce_ibv_init_ah_from_wc(ibv_context* context, uint8_t port, ibv_wc* completion,
                                           ibv_grh* grh, ibv_ah_attr* attributes) {
  if (!all_given(context, completion, grh, attributes)) return minus_one(EINVAL);
  const int error = init_ah_from_wc(object(context), port, *completion, *grh, *attributes);
  return error == 0 ? 0 : minus_one(error);
}

UROCE_EXPORT ibv_ah* uroce_ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* completion, ibv_grh* grh, uint8_t port) {
  if (!all_given(pd, completion, grh)) return fail(EINVAL);
  return pointer_or_errno([&]() -> ibv_ah* {
    ibv_ah_attr attributes{};
    if (const int error = init_ah_from_wc(object(pd->context), port, *completion, *grh, attributes);
        error != 0)
      return fail(error);
    return create_ah(pd, attributes);
  });
}

UROCE_EXPORT int uroce_ibv_destroy_ah(ibv_ah* face) {
  if (!all_given(face)) return with_errno(EINVAL);
  VerbsAh& ah = object(face);
  VerbsContext& context = object(ah.context);
  if (!context.alive()) return with_errno(EIO);
  context.device->give_back_address();
  object(ah.pd).users.fetch_sub(1);
  delete &ah;
  return 0;
}

}  // extern "C"
