#include <endian.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <span>

#include "engine/device/device.h"
#include "engine/platform/clock.h"
#include "mem/regions/fmr.h"
#include "verbs/calls/call_guard.h"
#include "verbs/calls/export.h"
#include "verbs/calls/objects.h"
#include "verbs/posting/requests.h"

namespace uroce::verbs {

namespace {

using engine::Limits;

/// An OUI without an owner: its bit "locally administered" is set. Some programs take 0 for a mistake.
constexpr uint32_t kVendor = 0x020000;

// Codes of IBTA's PortInfo, which have no names in verbs.h.
constexpr uint8_t kWidth1x = 1;
constexpr uint8_t kSpeed25Gbps = 32;
constexpr uint8_t kPhysicalLinkUp = 5;
constexpr uint8_t kPhysicalPolling = 2;

/// The layout that ibv_query_port had before it grew; the exported function may not write more.
constexpr size_t kCompatPortBytes = 48;

ibv_device_attr device_attributes(const VerbsContext& context) {
  ibv_device_attr attributes{};
  std::snprintf(attributes.fw_ver, sizeof(attributes.fw_ver), "%s", UROCE_VERSION);
  attributes.node_guid = htobe64(context.device->guid());
  attributes.sys_image_guid = attributes.node_guid;
  attributes.max_mr_size = Limits::kRegionBytes;
  attributes.page_size_cap = ~uint64_t{4095};
  attributes.vendor_id = kVendor;
  attributes.vendor_part_id = context.device->vendor_part();
  attributes.max_qp = static_cast<int>(context.device->queue_pairs_max());
  attributes.max_qp_wr = Limits::kWorkRequests;
  attributes.device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_CURR_QP_STATE_MOD |
                                IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_XRC | IBV_DEVICE_SRQ_RESIZE;
  attributes.device_cap_flags |=
      IBV_DEVICE_MEM_WINDOW |
      (context.device->window_type2() == engine::WindowType2::k2A ? IBV_DEVICE_MEM_WINDOW_TYPE_2A
                                                                  : IBV_DEVICE_MEM_WINDOW_TYPE_2B);
  attributes.max_mw = Limits::kWindows;
  attributes.max_sge = Limits::kSegments;
  attributes.max_sge_rd = Limits::kSegments;
  attributes.max_srq = Limits::kSharedReceiveQueues;
  attributes.max_srq_wr = Limits::kWorkRequests;
  attributes.max_srq_sge = Limits::kSegments;
  attributes.max_cq = Limits::kCompletionQueues;
  attributes.max_cqe = Limits::kCompletions;
  attributes.max_mr = Limits::kRegions;
  attributes.max_fmr = Limits::kRegions;
  attributes.max_map_per_fmr = mem::Fmr::kMapsMax;
  attributes.max_pd = Limits::kDomains;
  attributes.max_qp_rd_atom = Limits::kReadsAnswered;
  attributes.max_res_rd_atom = static_cast<int>(Limits::kReadsAnswered * context.device->queue_pairs_max());
  attributes.max_qp_init_rd_atom = Limits::kReadsSent;
  // Ours are locked instructions of the CPU, which every CPU and every coherent device takes for one step.
  attributes.atomic_cap = IBV_ATOMIC_GLOB;
  attributes.max_ah = static_cast<int>(Limits::kAddressHandles);
  attributes.max_mcast_grp = Limits::kGroups;
  attributes.max_mcast_qp_attach = Limits::kGroupMembers;
  attributes.max_total_mcast_qp_attach = Limits::kMemberships;
  attributes.max_pkeys = static_cast<uint16_t>(context.device->partition_keys().size());
  attributes.local_ca_ack_delay = Limits::kAckDelay;
  attributes.phys_port_cnt = 1;
  return attributes;
}

ibv_port_attr port_attributes(const VerbsContext& context) {
  const engine::Device& device = *context.device;
  const bool up = device.link_up();
  ibv_port_attr attributes{};
  attributes.state = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attributes.max_mtu = IBV_MTU_4096;
  attributes.active_mtu = static_cast<ibv_mtu>(device.path_mtu_max());
  attributes.gid_tbl_len = static_cast<int>(device.gids().size());
  attributes.port_cap_flags = IBV_PORT_IP_BASED_GIDS;
  attributes.max_msg_sz = static_cast<uint32_t>(kMessageBytesMax);
  attributes.pkey_tbl_len = static_cast<uint16_t>(device.partition_keys().size());
  attributes.max_vl_num = 1;
  attributes.active_width = kWidth1x;
  attributes.active_speed = kSpeed25Gbps;
  attributes.phys_state = up ? kPhysicalLinkUp : kPhysicalPolling;
  attributes.link_layer = IBV_LINK_LAYER_ETHERNET;
  attributes.flags = IBV_QPF_GRH_REQUIRED;
  return attributes;
}

/// 0, or EIO and EINVAL.
int check_port(const VerbsContext& context, uint32_t port) {
  if (!context.alive()) return EIO;
  return port == 1 ? 0 : EINVAL;
}

ibv_gid_entry gid_entry(const engine::Device& device, const net::GidTable& gids, uint32_t index) {
  ibv_gid_entry entry{};
  std::memcpy(entry.gid.raw, gids.at(index).bytes.data(), sizeof(entry.gid.raw));
  entry.gid_index = index;
  entry.port_num = 1;
  entry.gid_type = IBV_GID_TYPE_ROCE_V2;
  if (gids.in_use(index)) entry.ndev_ifindex = device.interface_of(gids.at(index));
  return entry;
}

/// 0, EIO or EINVAL; ENODATA when the index is empty, and then the GID is zero.
int find_gid(const VerbsContext& context, uint32_t port, uint32_t index, ibv_gid_entry& found) {
  if (const int error = check_port(context, port); error != 0) return error;
  const net::GidTable gids = context.device->gids();
  if (index >= gids.size()) return EINVAL;
  found = gid_entry(*context.device, gids, index);
  return gids.in_use(index) ? 0 : ENODATA;
}

}  // namespace

int query_device_ex(ibv_context* face, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attributes,
                    size_t bytes) {
  const VerbsContext& context = object(face);
  if (!context.alive()) return with_errno(EIO);
  if (attributes == nullptr || (input != nullptr && input->comp_mask != 0)) return with_errno(EINVAL);
  if (bytes < sizeof(attributes->orig_attr)) return with_errno(EINVAL);
  ibv_device_attr_ex all{};
  all.orig_attr = device_attributes(context);
  all.device_cap_flags_ex = all.orig_attr.device_cap_flags;
  // Completions carry nanoseconds; the clock is in kHz.
  all.completion_timestamp_mask = ~uint64_t{0};
  all.hca_core_clock = 1'000'000;
  all.cq_mod_caps = {.max_cq_count = UINT16_MAX, .max_cq_period = UINT16_MAX};
  all.phys_port_cnt_ex = all.orig_attr.phys_port_cnt;
  std::memset(attributes, 0, bytes);
  std::memcpy(attributes, &all, std::min(bytes, sizeof(all)));
  return 0;
}

int query_rt_values(ibv_context* face, ibv_values_ex* values) {
  if (values == nullptr) return with_errno(EINVAL);
  if (!object(face).alive()) return with_errno(EIO);
  if ((values->comp_mask & ~uint32_t{IBV_VALUES_MASK_RAW_CLOCK}) != 0) return with_errno(EOPNOTSUPP);
  if (values->comp_mask == 0) return 0;
  const int64_t now = engine::clock_now().ns;
  values->raw_clock = {.tv_sec = now / 1'000'000'000, .tv_nsec = now % 1'000'000'000};
  return 0;
}

int query_port(ibv_context* face, uint8_t port, ibv_port_attr* attributes, size_t bytes) {
  if (!all_given(face, attributes)) return with_errno(EINVAL);
  const VerbsContext& context = object(face);
  if (const int error = check_port(context, port); error != 0) return with_errno(error);
  const ibv_port_attr all = port_attributes(context);
  std::memset(attributes, 0, bytes);
  std::memcpy(attributes, &all, std::min(bytes, sizeof(all)));
  return 0;
}

}  // namespace uroce::verbs

using namespace uroce::verbs;

extern "C" {

UROCE_EXPORT int uroce_ibv_query_device(ibv_context* face, ibv_device_attr* attributes) {
  if (!all_given(face, attributes)) return with_errno(EINVAL);
  const VerbsContext& context = object(face);
  if (!context.alive()) return with_errno(EIO);
  *attributes = device_attributes(context);
  return 0;
}

UROCE_EXPORT int uroce_ibv_query_port(ibv_context* face, uint8_t port, _compat_ibv_port_attr* attributes) {
  return query_port(face, port, reinterpret_cast<ibv_port_attr*>(attributes), kCompatPortBytes);
}

/// An empty index has the GID zero, by which programs that go through all of them know it.
UROCE_EXPORT int uroce_ibv_query_gid(ibv_context* face, uint8_t port, int index, ibv_gid* gid) {
  if (!all_given(face, gid)) return minus_one(EINVAL);
  ibv_gid_entry found{};
  const int error = find_gid(object(face), port, static_cast<uint32_t>(index), found);
  if (error != 0 && error != ENODATA) return minus_one(error);
  *gid = found.gid;
  return 0;
}

UROCE_EXPORT int uroce__ibv_query_gid_ex(ibv_context* face, uint32_t port, uint32_t index,
                                         ibv_gid_entry* entry, uint32_t flags, size_t bytes) {
  if (!all_given(face, entry)) return with_errno(EINVAL);
  if (flags != 0) return with_errno(EOPNOTSUPP);
  ibv_gid_entry found{};
  if (const int error = find_gid(object(face), port, index, found); error != 0) return with_errno(error);
  std::memset(entry, 0, bytes);
  std::memcpy(entry, &found, std::min(bytes, sizeof(found)));
  return 0;
}

UROCE_EXPORT ssize_t uroce__ibv_query_gid_table(ibv_context* face, ibv_gid_entry* entries, size_t entries_max,
                                                uint32_t flags, size_t bytes) {
  if (face == nullptr || (entries == nullptr && entries_max != 0)) return -with_errno(EINVAL);
  const VerbsContext& context = object(face);
  if (!context.alive()) return -with_errno(EIO);
  if (flags != 0) return -with_errno(EOPNOTSUPP);
  const uroce::net::GidTable gids = context.device->gids();
  size_t count = 0;
  for (uint32_t i = 0; i < gids.size(); ++i) {
    if (!gids.in_use(i)) continue;
    if (count == entries_max) return -with_errno(EINVAL);
    const ibv_gid_entry found = gid_entry(*context.device, gids, i);
    auto* to = reinterpret_cast<std::byte*>(entries) + count++ * bytes;
    std::memset(to, 0, bytes);
    std::memcpy(to, &found, std::min(bytes, sizeof(found)));
  }
  return static_cast<ssize_t>(count);
}

/// An entry of libibverbs' private interface, used by ibv_devinfo: 0 is InfiniBand or RoCE v1, 1 is RoCE v2.
UROCE_EXPORT int uroce_ibv_query_gid_type(ibv_context* face, uint8_t port, unsigned int index, int* type) {
  if (!all_given(face, type)) return minus_one(EINVAL);
  ibv_gid_entry found{};
  const int error = find_gid(object(face), port, index, found);
  if (error != 0 && error != ENODATA) return minus_one(error);
  *type = 1;
  return 0;
}

UROCE_EXPORT int uroce_ibv_query_pkey(ibv_context* face, uint8_t port, int index, __be16* pkey) {
  if (!all_given(face, pkey)) return minus_one(EINVAL);
  const VerbsContext& context = object(face);
  if (const int error = check_port(context, port); error != 0) return minus_one(error);
  const std::span<const uint16_t> keys = context.device->partition_keys();
  if (index < 0 || static_cast<size_t>(index) >= keys.size()) return minus_one(EINVAL);
  *pkey = htobe16(keys[static_cast<size_t>(index)]);
  return 0;
}

UROCE_EXPORT int uroce_ibv_get_pkey_index(ibv_context* face, uint8_t port, __be16 pkey) {
  if (!all_given(face)) return minus_one(EINVAL);
  const VerbsContext& context = object(face);
  if (const int error = check_port(context, port); error != 0) return minus_one(error);
  const std::span<const uint16_t> keys = context.device->partition_keys();
  const auto found = std::ranges::find(keys, be16toh(pkey));
  return found != keys.end() ? static_cast<int>(found - keys.begin()) : minus_one(EINVAL);
}

}  // extern "C"
