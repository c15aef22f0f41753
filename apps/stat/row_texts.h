#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "host/statistics_format.h"

namespace uroce::statistics {

/// A number of a queue pair: label, unit and help, for every tool that shows it.
struct RowValue {
  const char* label;
  const char* unit;
  const char* help;
  bool grows;  // a counter; otherwise a gauge
  double (*of)(const host::QueuePairRow& row);
};

// clang-format off
#define UROCE_ROW_VALUES(X)                                                                               \
  X(sent_messages, "messages", "Requests of its own that are complete, READs and atomics included", true)  \
  X(sent_bytes, "bytes", "Data of these", true)                                                           \
  X(received_messages, "messages", "SENDs and WRITEs of the peer that are complete", true)                 \
  X(received_bytes, "bytes", "Data of these", true)                                                       \
  X(retransmitted, "packets", "Sent again", true)                                                         \
  X(timeouts, "times", "No acknowledgement came in time", true)                                           \
  X(naks_received, "packets", "NAKs other than RNR that came", true)                                      \
  X(rnr_naks_received, "packets", "RNR NAKs that came", true)                                             \
  X(naks_sent, "packets", "NAKs other than RNR that were sent", true)                                     \
  X(rnr_naks_sent, "packets", "RNR NAKs that were sent", true)                                            \
  X(cnps, "packets", "Congestion notifications that came", true)                                          \
  X(posted_sends, "requests", "Send work requests that are not complete", false)                          \
  X(posted_receives, "requests", "Receive work requests that are not used", false)                        \
  X(window, "packets", "May be unanswered at a time", false)                                              \
  X(unanswered, "packets", "Are unanswered", false)                                                       \
  X(mbps, "Mbit/s", "Rate that congestion control allows; 0: any", false)                                 \
  X(round_trip_ns, "ns", "Smoothed time from packet to acknowledgement; 0: not measured", false)          \
  X(round_trip_least_ns, "ns", "The shortest one", false)
// clang-format on

inline constexpr std::array kRowValues{
#define X(name, unit, help, grows)   \
  RowValue{#name, unit, help, grows, \
           [](const host::QueuePairRow& row) { return static_cast<double>(row.name); }},
    UROCE_ROW_VALUES(X)
#undef X
};

std::string_view type_of(const host::QueuePairRow& row);
std::string_view state_of(const host::QueuePairRow& row);
std::string_view control_of(const host::QueuePairRow& row);
/// "user", "dma", ..., for every tool.
std::string_view kind_of(const host::RegionRow& row);
std::string_view region_kind(size_t kind);
/// Names of what its key permits, without IBV_ACCESS_ and in small letters.
std::vector<std::string_view> rights_of(const host::RegionRow& row);
/// The peer's address; empty without one.
std::string peer_of(const host::QueuePairRow& row);

}  // namespace uroce::statistics
