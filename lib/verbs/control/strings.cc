#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "queue/status_text.h"
#include "verbs/calls/export.h"

namespace {

template <size_t N>
const char* name_of(const std::array<const char*, N>& names, int64_t value) {
  return value >= 0 && static_cast<size_t>(value) < N ? names[static_cast<size_t>(value)] : "unknown";
}

constexpr std::array kNodeTypes = {
    "unknown", "channel adapter", "switch", "router", "iWARP adapter", "usNIC", "usNIC UDP", "unspecified",
};
static_assert(kNodeTypes.size() == IBV_NODE_UNSPECIFIED + 1);

constexpr std::array kPortStates = {
    "no change", "down", "init", "armed", "active", "active defer",
};
static_assert(kPortStates.size() == IBV_PORT_ACTIVE_DEFER + 1);

constexpr std::array kEventTypes = {
    "CQ error",
    "QP failed",
    "QP got an invalid request",
    "QP access violation",
    "communication established",
    "send queue drained",
    "path migrated",
    "path migration failed",
    "device failed",
    "port active",
    "port error",
    "LID change",
    "P_Key change",
    "SM change",
    "SRQ failed",
    "SRQ limit reached",
    "last WQE reached",
    "client reregistration",
    "GID change",
    "WQ failed",
};
static_assert(kEventTypes.size() == IBV_EVENT_WQ_FATAL + 1);

static_assert(uroce::queue::kStatusTexts.size() == IBV_WC_TM_RNDV_INCOMPLETE + 1);

constexpr std::array kRequestOpcodes = {
    "RDMA write",
    "RDMA write with immediate",
    "send",
    "send with immediate",
    "RDMA read",
    "compare and swap",
    "fetch and add",
    "local invalidate",
    "bind memory window",
    "send with invalidate",
    "TSO",
    "driver1",
    "unknown",
    "unknown",
    "flush",
    "atomic write",
};
static_assert(kRequestOpcodes.size() == IBV_WR_ATOMIC_WRITE + 1);

/// A rate of enum ibv_rate, as a multiple of 2.5 Gb/s (0: not a multiple that has a code) and in Mb/s.
struct Rate {
  ibv_rate code;
  int multiple;
  int mbps;
};

constexpr std::array kRates = {
    Rate{IBV_RATE_2_5_GBPS, 1, 2500},       Rate{IBV_RATE_5_GBPS, 2, 5000},
    Rate{IBV_RATE_10_GBPS, 4, 10000},       Rate{IBV_RATE_20_GBPS, 8, 20000},
    Rate{IBV_RATE_30_GBPS, 12, 30000},      Rate{IBV_RATE_40_GBPS, 16, 40000},
    Rate{IBV_RATE_60_GBPS, 24, 60000},      Rate{IBV_RATE_80_GBPS, 32, 80000},
    Rate{IBV_RATE_120_GBPS, 48, 120000},    Rate{IBV_RATE_14_GBPS, 0, 14062},
    Rate{IBV_RATE_56_GBPS, 0, 56250},       Rate{IBV_RATE_112_GBPS, 0, 112500},
    Rate{IBV_RATE_168_GBPS, 0, 168750},     Rate{IBV_RATE_25_GBPS, 10, 25781},
    Rate{IBV_RATE_100_GBPS, 40, 103125},    Rate{IBV_RATE_200_GBPS, 80, 206250},
    Rate{IBV_RATE_300_GBPS, 120, 309375},   Rate{IBV_RATE_28_GBPS, 11, 28125},
    Rate{IBV_RATE_50_GBPS, 20, 53125},      Rate{IBV_RATE_400_GBPS, 160, 425000},
    Rate{IBV_RATE_600_GBPS, 240, 637500},   Rate{IBV_RATE_800_GBPS, 320, 850000},
    Rate{IBV_RATE_1200_GBPS, 480, 1275000},
};

}  // namespace

// Enumerations come as the numbers that they are to the caller: any.
extern "C" {

UROCE_EXPORT const char* uroce_ibv_node_type_str(int type) { return name_of(kNodeTypes, type); }

UROCE_EXPORT const char* uroce_ibv_port_state_str(unsigned state) { return name_of(kPortStates, state); }

UROCE_EXPORT const char* uroce_ibv_event_type_str(unsigned event) { return name_of(kEventTypes, event); }

UROCE_EXPORT const char* uroce_ibv_wc_status_str(unsigned status) {
  return name_of(uroce::queue::kStatusTexts, status);
}

UROCE_EXPORT const char* uroce_ibv_wr_opcode_str(unsigned opcode) { return name_of(kRequestOpcodes, opcode); }

UROCE_EXPORT int uroce_ibv_rate_to_mult(unsigned rate) {
  for (const Rate& row : kRates) {
    if (row.code == rate && row.multiple != 0) return row.multiple;
  }
  return -1;
}

UROCE_EXPORT ibv_rate uroce_mult_to_ibv_rate(int multiple) {
  for (const Rate& row : kRates) {
    if (row.multiple == multiple && multiple != 0) return row.code;
  }
  return IBV_RATE_MAX;
}

UROCE_EXPORT int uroce_ibv_rate_to_mbps(unsigned rate) {
  for (const Rate& row : kRates) {
    if (row.code == rate) return row.mbps;
  }
  return -1;
}

UROCE_EXPORT ibv_rate uroce_mbps_to_ibv_rate(int mbps) {
  for (const Rate& row : kRates) {
    if (row.mbps == mbps) return row.code;
  }
  return IBV_RATE_MAX;
}

}  // extern "C"
