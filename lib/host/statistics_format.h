#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/counters.h"
#include "base/latencies.h"
#include "host/tool_memory.h"

// What a process with a stack shows of itself: memory that `uroce stat` and others read, which is not slowed
// or stopped by that. A memfd of the process, which its readers find below /proc, so that nothing of it is
// left when the process has ended, however it did.
//
//   StatisticsHeader | DeviceShown[devices] | Counters[devices][pollers] | Latencies[devices][pollers] |
//   RegionRow[kRegionRowsMax] | QueuePairRow[kRowsMax]
//
// Counters and latencies are where the pollers count. The rest costs something, and is written when a reader
// asks (tool_memory.h). The lock is flock() of the memory, which the process itself never takes.
namespace uroce::host {

inline constexpr char kStatisticsName[] = "uroce-statistics";        // of the memfd
inline constexpr uint64_t kStatisticsMagic = 0x5453'4563'6F72'7505;  // "\5urocEST"
inline constexpr uint32_t kStatisticsVersion = 4;
inline constexpr uint32_t kRowsMax = 4096;
inline constexpr uint32_t kRegionRowsMax = 4096;
inline constexpr size_t kRegionKinds = 11;  // the first is none
inline constexpr uint32_t kShownDevicesMax = 16;
inline constexpr uint32_t kShownPollersMax = 64;  // of one device

/// A queue pair, as it was when the reader asked. Values of the verbs where they have some.
struct QueuePairRow {
  uint32_t number;
  uint32_t device;  // in the order of the memory
  uint32_t poller;
  uint32_t destination;        // queue pair at the other end; 0: none
  uint8_t type;                // enum ibv_qp_type
  uint8_t state;               // enum ibv_qp_state
  uint8_t congestion_control;  // row of qp/congestion/algorithms.h
  uint8_t unused;
  uint32_t mtu;
  std::array<uint8_t, 16> peer;  // GID
  uint64_t sent_messages;
  uint64_t sent_bytes;
  uint64_t received_messages;
  uint64_t received_bytes;
  uint64_t retransmitted;
  uint64_t timeouts;
  uint64_t naks_received;
  uint64_t rnr_naks_received;
  uint64_t naks_sent;
  uint64_t rnr_naks_sent;
  uint32_t posted_sends;  // work requests that are not complete
  uint32_t posted_receives;
  uint32_t window;        // packets that may be unanswered
  uint32_t unanswered;    // packets that are
  double mbps;            // 0: no rate limits it
  uint64_t cnps;          // congestion notifications that came
  int64_t round_trip_ns;  // smoothed; 0: not measured
  int64_t round_trip_least_ns;
};
static_assert(sizeof(QueuePairRow) == 168);

/// A memory region or window, as it was when the reader asked.
struct RegionRow {
  uint32_t key;
  uint32_t device;   // in the order of the memory
  uint32_t domain;   // protection domain
  uint32_t access;   // enum ibv_access_flags
  uint32_t kind;     // mem::RegionKind, less than kRegionKinds
  uint32_t bound;    // 0: it waits for a binding, and has no address, length and rights
  uint64_t address;  // of the first byte, as users of the key name it
  uint64_t length;
};
static_assert(sizeof(RegionRow) == 40);

/// A device. Names are set once, the rest when a reader asks.
struct DeviceShown {
  std::array<char, 64> name;
  std::array<char, 128> port;
  uint32_t pollers;
  uint32_t link_up;
  uint32_t link_mbps;  // 0: unknown
  uint32_t queue_pairs;
  uint32_t regions;
  uint32_t completion_queues;
  uint64_t port_dropped;  // by the port's queues
  uint64_t port_transmit_calls;
  // When the reader asked for regions.
  std::array<uint64_t, kRegionKinds> regions_of_kind;
  std::array<uint64_t, kRegionKinds> region_bytes_of_kind;  // bound
};
static_assert(sizeof(DeviceShown) == 408);

struct StatisticsHeader {
  ToolMemory head;
  Question question;
  uint64_t counter_table;  // counter_table_hash()
  uint32_t counters;       // of a poller
  uint32_t devices;
  uint32_t pollers;  // of each device

  // Readers ask for these.
  uint32_t wanted_queue_pair;  // 0: all
  uint32_t wants_regions;      // 1: regions, too

  // The process answers.
  uint32_t rows;                     // that are filled in
  uint32_t queue_pairs;              // that there are
  uint32_t region_rows;              // that are filled in
  std::atomic<int64_t> answered_ns;  // when, by CLOCK_MONOTONIC
};

/// Where things are.
class StatisticsLayout {
 public:
  StatisticsLayout(uint32_t devices, uint32_t pollers) : devices_(devices), pollers_(pollers) {}

  [[nodiscard]] size_t bytes() const { return rows_offset() + kRowsMax * sizeof(QueuePairRow); }
  [[nodiscard]] DeviceShown* device(std::byte* memory, uint32_t index) const {
    return reinterpret_cast<DeviceShown*>(memory + kDevicesOffset) + index;
  }
  [[nodiscard]] Counters* counters(std::byte* memory, uint32_t device, uint32_t poller) const {
    return reinterpret_cast<Counters*>(memory + counters_offset()) + (device * pollers_ + poller);
  }
  [[nodiscard]] Latencies* latencies(std::byte* memory, uint32_t device, uint32_t poller) const {
    return reinterpret_cast<Latencies*>(memory + latencies_offset()) + (device * pollers_ + poller);
  }
  [[nodiscard]] std::span<RegionRow> regions(std::byte* memory) const {
    return {reinterpret_cast<RegionRow*>(memory + regions_offset()), kRegionRowsMax};
  }
  [[nodiscard]] std::span<QueuePairRow> rows(std::byte* memory) const {
    return {reinterpret_cast<QueuePairRow*>(memory + rows_offset()), kRowsMax};
  }

 private:
  static constexpr size_t kPage = 4096;
  static constexpr size_t kDevicesOffset = kPage;
  static constexpr size_t whole_pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }
  [[nodiscard]] size_t counters_offset() const {
    return kDevicesOffset + whole_pages(devices_ * sizeof(DeviceShown));
  }
  [[nodiscard]] size_t latencies_offset() const {
    return counters_offset() + whole_pages(size_t{devices_} * pollers_ * sizeof(Counters));
  }
  [[nodiscard]] size_t regions_offset() const {
    return latencies_offset() + whole_pages(size_t{devices_} * pollers_ * sizeof(Latencies));
  }
  [[nodiscard]] size_t rows_offset() const {
    return regions_offset() + whole_pages(kRegionRowsMax * sizeof(RegionRow));
  }

  uint32_t devices_;
  uint32_t pollers_;
};
static_assert(sizeof(StatisticsHeader) <= 4096);

}  // namespace uroce::host
