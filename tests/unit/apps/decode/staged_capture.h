#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "apps/decode/decoder.h"
#include "apps/decode/rules.h"
#include "reader.h"
#include "wire/cm_message.h"
#include "wire/headers.h"

namespace uroce::decode {

using captures::Frame;

/// Frames between two ends, as a test wants them, and what is found in them.
class StagedCapture {
 public:
  enum class From : uint8_t { kClient, kServer };
  static constexpr uint32_t kMtu = 1024;

  enum class Network : uint8_t { kIpv4, kIpv6 };

  explicit StagedCapture(Network network = Network::kIpv4) : network_(network) {}
  explicit StagedCapture(std::vector<captures::Record> records) : records_(std::move(records)) {}

  /// A packet with right lengths and ICRC, 10 us behind the one before.
  wire::Headers& add(From from, wire::Operation operation, uint32_t psn, uint32_t payload_bytes = 0);
  /// Of another service than RC, or to another queue pair.
  wire::Headers& add(From from, wire::Opcode opcode, uint32_t psn, uint32_t payload_bytes = 0);
  /// A frame that was added can be changed until the next one is, or what follows is called.
  void wait(int64_t ns) { pause_ns_ += ns; }
  /// Changes bytes of the newest frame, counted from the BTH, and gives it a right ICRC again.
  void change(const std::function<void(std::byte* bth)>& how);
  void damage(size_t from_the_end);
  /// The newest frame once more, with an IPv4 identification of its own.
  void again(int64_t later_ns);

  /// The newest `packets` frames, which have the same headers, become one as a kernel passes it on without
  /// dividing it, numbered from `identification` on.
  void aggregate(size_t packets, uint16_t identification);

  std::vector<captures::Record>& records();

  /// SEND, WRITE, READ and atomic, each answered, from PSN 100 to the returned one, which is not used.
  uint32_t converse();

 private:
  void finish();

  struct Pending {
    From from{};
    wire::Headers headers;
    uint32_t payload_bytes = 0;
  };
  Network network_ = Network::kIpv4;
  std::vector<captures::Record> records_;
  bool is_pending_ = false;
  Pending pending_;
  int64_t now_ns_ = 0;
  int64_t pause_ns_ = 0;
  uint16_t identification_ = 1;
};

/// Puts a right ICRC behind a frame of RoCEv2 that was changed.
void renew_icrc(Frame& frame);
/// Changes a message of the connection manager in its frame.
void change_message(Frame& frame, const std::function<void(wire::CmMad&)>& how);

struct Outcome {
  Totals totals;
  Findings findings;               // with their frames
  std::vector<std::string> notes;  // of each frame
  uint64_t streams = 0;
  uint64_t not_captured = 0;  // PSNs, of all streams
  uint64_t one_sided = 0;     // streams
};
/// Written to a file of pcap, of `bytes_max` of each frame, and decoded.
Outcome decoded(const std::vector<captures::Record>& records, uint32_t bytes_max = 1u << 16);

}  // namespace uroce::decode
