#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "engine/device/device.h"
#include "engine/device/stack.h"

namespace uroce::engine {

/// A send work request with one segment.
struct Message {
  queue::SendOperation operation;
  queue::Segment local;
  uint64_t remote = 0;
  MemoryKey rkey;
};

/// One side of a connection: a device, a domain, a completion queue, a queue pair and a registered buffer,
/// made through the calls that the verbs face makes.
class Side {
 public:
  static constexpr uint32_t kDepth = 64;

  /// `listener`: of its completion queue; not owned.
  Side(std::shared_ptr<Device> device, size_t buffer_bytes, queue::CompletionListener* listener = nullptr);
  ~Side();
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  [[nodiscard]] Device& device() const { return *device_; }
  [[nodiscard]] QpSlot& queue_pair() const { return *queue_pair_; }
  [[nodiscard]] queue::CompletionQueue& completions() const { return *completions_; }
  [[nodiscard]] std::vector<std::byte>& buffer() { return buffer_; }
  [[nodiscard]] DomainId domain() const { return domain_; }
  [[nodiscard]] MemoryKey lkey() const { return keys_.lkey; }
  [[nodiscard]] MemoryKey rkey() const { return keys_.rkey; }
  [[nodiscard]] uint64_t address() const { return reinterpret_cast<uint64_t>(buffer_.data()); }

  /// To RTS, towards `peer` (which may be this very side).
  [[nodiscard]] int connect(const Side& peer);
  void disconnect();

  /// Posts all at once, numbered from `first_id`.
  void post(const std::vector<Message>& messages, uint64_t first_id = 1);
  void receive(const std::vector<queue::Segment>& segments, uint64_t first_id);

  /// Writes the first `length` bytes of the buffer to the same place of the peer's.
  void post_write(const Side& peer, uint32_t length, uint64_t wr_id = 1);
  void post_send(uint32_t length, uint64_t wr_id = 1);
  void post_receive(uint32_t length, uint64_t wr_id = 1);

  /// Polls, as ibv_poll_cq does, until a completion comes.
  queue::Completion wait();
  /// Polls once; nullopt when there is nothing.
  std::optional<queue::Completion> poll();
  /// Only looks, without turning a poller.
  std::optional<queue::Completion> look();

 private:
  std::shared_ptr<Device> device_;
  DomainId domain_;
  std::unique_ptr<queue::CompletionQueue> completions_;
  QpSlot* queue_pair_ = nullptr;
  std::vector<std::byte> buffer_;
  mem::RegionKeys keys_;
};

/// Connects both, each towards the other.
[[nodiscard]] int connect_pair(Side& one, Side& other);
/// A new connection of the same two.
[[nodiscard]] int reconnect_pair(Side& one, Side& other);

/// A new connection between the two devices carries a WRITE of so many bytes.
void expect_a_write(const std::shared_ptr<Device>& from, const std::shared_ptr<Device>& to,
                    uint32_t bytes = 100'000);

/// Fills the buffer with bytes that depend on `seed`.
void fill(std::vector<std::byte>& buffer, uint64_t seed);

}  // namespace uroce::engine
