#pragma once

#include <infiniband/verbs.h>

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "client/verbs_device.h"
#include "client/verbs_objects.h"
#include "tests/judge/operation.h"

namespace uroce::judge {

/// As of ibv_rc_pingpong, and what the server alone decides.
struct Options {
  std::string device;
  uint32_t gid_index = 1;
  uint32_t path_mtu = 1024;
  uint16_t tcp_port = 18515;
  uint8_t ack_timeout = 16;
  std::string server;  // empty at the server itself
  uint64_t seed = 0;
  uint64_t operations = 10000;
  uint64_t round = 0;       // the first
  uint32_t requesters = 0;  // 0: any; 1: the server; 2: the client
  std::chrono::seconds patience{20};
  uint64_t stalls_max = 0;      // that are survived by a new connection
  uint32_t requests_max = 200;  // of a list
  bool local_requests = true;   // of this end, in lists; not where a repetition performs them again
};

/// What both ends decide alike for a connection.
struct Connecting {
  uint32_t own_psn = 0;
  uint32_t peer_psn = 0;
  uint8_t read_depth = 1;
};

/// Registered memory that begins poisoned.
class Arena {
 public:
  Arena(ibv_pd* domain, size_t bytes, int access);

  [[nodiscard]] std::span<std::byte> bytes() { return {bytes_.get(), size_}; }
  [[nodiscard]] std::span<std::byte> bytes(uint32_t offset, uint32_t length) {
    return bytes().subspan(offset, length);
  }
  [[nodiscard]] uint64_t address() const { return reinterpret_cast<uint64_t>(bytes_.get()); }
  [[nodiscard]] ibv_mr& region() { return *region_; }
  void poison(uint32_t offset, uint32_t length);
  /// Throws Wrong, which begins with `what`, unless the first `length` bytes are poison.
  void expect_untouched(uint32_t length, const char* what);

 private:
  client::Buffer bytes_;
  size_t size_;
  client::MemoryRegion region_;
};

/// One end: plain verbs only. A device, memory and a queue pair that is made anew for each connection.
/// Failures of calls throw client::Failure.
class End {
 public:
  explicit End(const Options& options);

  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] bool has_windows() const;
  [[nodiscard]] uint32_t inline_max() const { return inline_max_; }
  [[nodiscard]] uint8_t read_depth_max() const;
  [[nodiscard]] ibv_pd* domain() { return domain_.get(); }
  [[nodiscard]] Arena& target() { return target_; }      // the peer's requests go to it
  [[nodiscard]] Arena& local() { return local_; }        // bytes of own requests
  [[nodiscard]] Arena& received() { return received_; }  // bytes of receives

  [[nodiscard]] uint32_t queue_pair_number() const { return queue_pair_->qp_num; }

  /// A queue pair in place of the last one, of which nothing is left, and where the peer finds it.
  nlohmann::json renew();
  void connect(const nlohmann::json& peer, const Connecting& connecting);

  void post_send(ibv_send_wr& first);
  void post_receive(ibv_recv_wr& first);
  /// The completions that have come; throws Wrong or Stall for one that failed.
  std::span<const ibv_wc> poll();

 private:
  void modify(ibv_qp_attr attributes, int mask, const char* to_state);

  Options options_;
  client::VerbsDevice device_;
  client::ProtectionDomain domain_;
  Arena target_;
  Arena local_;
  Arena received_;
  client::CompletionQueue completions_;
  client::QueuePair queue_pair_;
  std::vector<ibv_wc> polled_;
  uint32_t inline_max_ = 0;
};

/// Whether a completion is of a receive; what it is of is in the rest.
constexpr uint64_t kReceiveBit = uint64_t{1} << 63;

}  // namespace uroce::judge
