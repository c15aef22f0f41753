#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/values/random.h"
#include "base/values/time.h"
#include "mem/keys/region_table.h"
#include "qp/attributes/datagram_address.h"
#include "queue/completion_queue.h"
#include "tests/sim/endpoint.h"

namespace uroce::sim {

/// Messages on UC or UD, one way. Which arrive is not told; but each that completes at the receiver is whole
/// and was sent, and, while the network keeps the order, those of UC come in it.
class UnansweredTraffic {
 public:
  struct Options {
    uint32_t messages = 50;
    uint32_t bytes_max = 0;
    uint64_t seed = 0;
    bool in_order = false;
    std::optional<qp::DatagramAddress> to;  // UD
  };
  UnansweredTraffic(Endpoint& from, Endpoint& to, const Options& options);

  /// What the two applications do now: post, poll, check.
  void act();
  /// Everything was sent, and the network has had time for what was still in it.
  [[nodiscard]] bool done() const;
  [[nodiscard]] const std::string& failure() const { return failure_; }
  [[nodiscard]] uint32_t completed() const { return sent_; }
  [[nodiscard]] uint32_t received() const { return received_; }
  /// Ends the regions; before the endpoints close.
  std::string close();

 private:
  static constexpr uint32_t kDepth = Endpoint::kDepth;

  /// What the beginning of a message says of it; the rest of its bytes follow from the number.
  struct Head {
    uint32_t number = 0;
    uint32_t bytes = 0;
  };

  void post();
  void post_receive(uint32_t slot);
  void poll_sends();
  void poll_receives();
  [[nodiscard]] std::string check(std::span<const std::byte> message, const queue::Completion& completion);
  [[nodiscard]] std::vector<std::byte> message(uint32_t number) const;
  [[nodiscard]] std::span<std::byte> slot(std::vector<std::byte>& memory, uint32_t index) const {
    return {memory.data() + size_t{index} * slot_bytes_, slot_bytes_};
  }

  Endpoint& from_;
  Endpoint& to_;
  const Options options_;
  const uint32_t header_bytes_;  // before a message
  const uint32_t slot_bytes_;
  Random random_;
  std::string failure_;
  std::vector<std::byte> source_;
  std::vector<std::byte> target_;
  mem::RegionKeys source_keys_;
  mem::RegionKeys target_keys_;
  uint32_t posted_ = 0;
  uint32_t sent_ = 0;
  uint32_t received_ = 0;
  uint32_t next_number_ = 0;  // the least that may come while the order is kept
  Instant last_event_{};
};

/// Takes the queue pairs of one service, UC or UD, from RESET to RTS; for UD, the address of b as a sees it.
std::optional<qp::DatagramAddress> connect_unanswered(Endpoint& a, Endpoint& b,
                                                      const ConnectionOptions& options);

}  // namespace uroce::sim
