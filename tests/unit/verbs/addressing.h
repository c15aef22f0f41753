#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cstring>

#include "ends.h"

// What the tests of addresses share: queue pairs from a GID to a GID, datagrams, and their IP headers.

namespace uroce::verbs_test {

inline constexpr uint32_t kDatagramQkey = 0x1BADCAFE;

/// The GIDs that meson.build configures, behind the link-local one.
inline constexpr uint8_t kIpv4Gid = 1, kOtherIpv4Gid = 2, kIpv6Gid = 3, kOtherIpv6Gid = 4;
inline constexpr uint8_t kVlanIpv4Gid = 5, kVlanIpv6Gid = 6, kLonelyVlanGid = 7;

inline ibv_gid gid_at(const End& end, uint8_t index) {
  ibv_gid gid{};
  EXPECT_EQ(ibv_query_gid(end.context, 1, index, &gid), 0);
  return gid;
}

inline ibv_ah_attr way(uint8_t from, const ibv_gid& to) {
  ibv_ah_attr attributes{};
  attributes.is_global = 1;
  attributes.port_num = 1;
  attributes.grh.dgid = to;
  attributes.grh.sgid_index = from;
  attributes.grh.hop_limit = 64;
  return attributes;
}

/// The error of the way to RTR from `own_index` to the peer's `peer_index`; 0: the queue pair is in RTS.
inline int bring_up(const End& end, uint8_t own_index, const End& peer, uint8_t peer_index,
                    uint16_t pkey_index = 0, const ibv_ah_attr* as = nullptr) {
  ibv_qp_attr init = init_attributes(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
  init.pkey_index = pkey_index;
  if (const int error = ibv_modify_qp(end.qp, &init, kInitMask)) return error;
  ibv_qp_attr rtr = rtr_attributes(end.context, peer.qp->qp_num, gid_at(peer, peer_index));
  if (as != nullptr) {
    rtr.ah_attr = *as;
  } else {
    rtr.ah_attr.grh.sgid_index = own_index;
  }
  if (const int error = ibv_modify_qp(end.qp, &rtr, kRtrMask)) return error;
  ibv_qp_attr rts = rts_attributes();
  return ibv_modify_qp(end.qp, &rts, kRtsMask);
}

/// Both, and one WRITE each way.
inline void expect_connection(End& one, uint8_t index, End& other, uint8_t other_index) {
  ASSERT_EQ(bring_up(one, index, other, other_index), 0);
  ASSERT_EQ(bring_up(other, other_index, one, index), 0);
  for (const auto& [from, to] : {std::pair<End&, End&>{one, other}, std::pair<End&, End&>{other, one}}) {
    from.fill(index);
    std::memset(to.memory.data() + 8192, 0, 5000);
    ibv_sge segment = from.part(0, 5000);
    ASSERT_EQ(from.send(write_request(1, segment, to, 8192)), 0);
    EXPECT_EQ(from.next().status, IBV_WC_SUCCESS);
    EXPECT_EQ(std::memcmp(from.memory.data(), to.memory.data() + 8192, 5000), 0);
  }
}

inline EndOptions datagrams() {
  EndOptions options;
  options.type = IBV_QPT_UD;
  return options;
}

inline void bring_up_datagrams(const End& end, uint16_t pkey_index = 0) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = 1;
  attributes.pkey_index = pkey_index;
  attributes.qkey = kDatagramQkey;
  ASSERT_EQ(ibv_modify_qp(end.qp, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
            0);
  attributes.qp_state = IBV_QPS_RTR;
  ASSERT_EQ(ibv_modify_qp(end.qp, &attributes, IBV_QP_STATE), 0);
  attributes.qp_state = IBV_QPS_RTS;
  ASSERT_EQ(ibv_modify_qp(end.qp, &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

/// Sends eight bytes along `attributes` and waits until they are sent.
inline void send_along(const End& from, ibv_ah_attr attributes, const End& to) {
  ibv_ah* const ah = ibv_create_ah(from.pd, &attributes);
  ASSERT_NE(ah, nullptr);
  ibv_sge segment = from.part(0, 8);
  ibv_send_wr request = send_request(1, segment);
  request.wr.ud = {.ah = ah, .remote_qpn = to.qp->qp_num, .remote_qkey = kDatagramQkey};
  ASSERT_EQ(from.send(request), 0);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
  EXPECT_EQ(from.next().status, IBV_WC_SUCCESS);
}

/// What lies in the first 40 bytes of an end's memory.
inline ibv_grh header_of(const End& end) {
  ibv_grh header{};
  std::memcpy(&header, end.memory.data(), sizeof(header));
  return header;
}

}  // namespace uroce::verbs_test
