#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "conversation.h"
#include "engine/device/device.h"
#include "fed_port.h"
#include "memory.h"
#include "messages.h"
#include "queue/completion_queue.h"
#include "tables.h"

namespace uroce::replay {

/// One end of a captured connection, played by a device of the engine: the port is fed by the test, the time
/// is the capture's. There is one at a time.
class OurEnd {
 public:
  OurEnd(const Conversation& conversation, size_t ours, const Requests& own, const Requests& peers);
  ~OurEnd();

  /// Goes on to that moment of the capture; timers expire on the way.
  void advance(Instant to);
  /// The peer's packet arrives with the next turn; destination and keys become ours.
  void feed(const Packet& packet);
  void post_send(size_t message);
  void post_receive(size_t message);
  /// Until there is nothing to do at this moment.
  void settle();

  [[nodiscard]] Instant now() const;
  /// With the capture's time.
  std::vector<FedPort::Sent> take_sent();
  std::vector<queue::Completion> take_sends() { return poll(*send_completions_); }
  std::vector<queue::Completion> take_receives() { return poll(*receive_completions_); }
  [[nodiscard]] Memory& memory() { return *memory_; }
  /// How long the ACK timer of our requester runs.
  [[nodiscard]] Duration ack_timeout() const;

 private:
  explicit OurEnd(std::unique_ptr<FedPort> port, const Conversation& conversation, size_t ours,
                  const Requests& own, const Requests& peers);
  void connect(const Conversation& conversation, size_t ours);
  void modify(qp::State state, qp::AttributeMask mask);
  static std::vector<queue::Completion> poll(queue::CompletionQueue& completions);

  const Requests& own_;
  const Requests& peers_;
  FedPort& port_;
  engine::DeviceState* state_ = nullptr;
  std::unique_ptr<engine::Device> device_;
  DomainId domain_;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<queue::CompletionQueue> send_completions_;
  std::unique_ptr<queue::CompletionQueue> receive_completions_;
  engine::QpSlot* queue_pair_ = nullptr;
  qp::Attributes attributes_;
};

}  // namespace uroce::replay
