#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "apps/perf/ends/connection.h"
#include "apps/perf/plan/layout.h"
#include "apps/perf/plan/plan.h"
#include "client/verbs_device.h"
#include "client/verbs_objects.h"

namespace uroce::perf {

/// What one poll of the completion queue found.
struct Completions {
  static constexpr size_t kMax = 16;

  uint64_t sent = 0;  // messages whose completion was reported, unsignalled ones before it included
  uint64_t received = 0;
  /// A message received on an unreliable service: its immediate data, and whether it was whole.
  struct Arrival {
    uint32_t number;
    bool empty;
  };
  std::array<Arrival, kMax> arrivals;  // of unreliable services: those that were received
};

/// One end: a device, registered memory, a completion queue, and the queue pair of the current round. Every
/// failure throws. One thread.
class Endpoint {
 public:
  Endpoint(const client::DeviceChoice& choice, const Plan& plan);

  [[nodiscard]] const client::VerbsDevice& device() const { return device_; }
  /// Bytes of the connected path, 0 before connect().
  [[nodiscard]] uint32_t path_mtu() const { return connection_ ? connection_->path_mtu() : 0; }

  /// What is sent, and read by the peer; what the peer writes to and what READs and receives fill.
  [[nodiscard]] std::span<std::byte> source() { return {buffer_.get(), area_bytes_}; }
  [[nodiscard]] std::span<std::byte> target() { return {buffer_.get() + area_bytes_, area_bytes_}; }

  /// A fresh queue pair in place of the last round's, with the slots of this round.
  void begin_round(const Layout& layout);
  [[nodiscard]] Address address() const;
  void connect(const Address& peer);

  /// Receives outstanding that a round of SENDs keeps posted.
  [[nodiscard]] uint32_t receive_depth() const { return receive_depth_; }

  [[nodiscard]] uint32_t send_depth() const { return send_depth_; }

  /// Posts messages `first` .. `first + count - 1` (count <= kBatchMax) in one call; the last one is
  /// signalled. On an unreliable service each brings its number as immediate data.
  void post(Operation operation, uint64_t first, uint32_t count);
  /// Posts receives for the messages `first` .. `first + count - 1` (count <= kBatchMax).
  void post_receives(uint64_t first, uint32_t count);
  /// On an unreliable service: a message without bytes that brings `number`.
  void post_number(uint64_t number);
  Completions poll();

 private:
  void forget_completions();
  void post_list(ibv_send_wr* requests, Operation operation);
  void note_arrival(const ibv_wc& completion, Completions& completions) const;

  client::VerbsDevice device_;
  Plan plan_;
  Service service_;
  uint32_t send_depth_;
  uint32_t receive_depth_;
  uint64_t area_bytes_;
  client::Buffer buffer_;
  client::ProtectionDomain domain_;
  client::MemoryRegion region_;
  client::CompletionQueue completions_;
  std::optional<Connection> connection_;

  Layout layout_;
  Operation last_operation_ = Operation::kWrite;  // for the text of an error
};

}  // namespace uroce::perf
