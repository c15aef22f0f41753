#pragma once

#include <cstdint>
#include <span>

#include "base/values/contract.h"
#include "queue/shared_receive_queue.h"
#include "queue/work_queue.h"

namespace uroce::qp {

/// Where a queue pair takes its receive work requests from, one for each message that needs one: its own
/// queue, one that it shares with others, or (XRC) of these the one that the message names. From the first
/// packet of that message until it is reported, the request is the current one.
class ReceiveRequests {
 public:
  ReceiveRequests(queue::ReceiveQueue& own, queue::SharedReceiveQueue* shared)
      : own_(own), shared_(shared), are_shared_(shared != nullptr) {}

  [[nodiscard]] bool are_shared() const { return are_shared_; }

  // XRC, whose own queue is empty for ever.
  /// The queue that the messages from now on name, or none; when no request is taken.
  void share(queue::SharedReceiveQueue* queue) {
    UROCE_ASSERT(waiting() == 0);
    are_shared_ = true;
    shared_ = queue;
  }
  [[nodiscard]] const queue::SharedReceiveQueue* shared() const { return shared_; }
  /// The queue goes, and what was taken from it: there is none then.
  void forget_shared() {
    taken_ = nullptr;
    shared_ = nullptr;
  }

  /// There is a current request, or one that can become it.
  [[nodiscard]] bool available() const {
    if (shared_ == nullptr) [[likely]]
      return waiting() != 0;
    return taken_ != nullptr || !shared_->empty();
  }

  /// The current request, or the one that can become it; nullptr: there is none.
  [[nodiscard]] const queue::ReceiveRequest* front() const {
    if (shared_ == nullptr) [[likely]]
      return waiting() != 0 ? &own_.at(own_.retired()) : nullptr;
    return available() ? &current() : nullptr;
  }

  // When available():
  [[nodiscard]] const queue::ReceiveRequest& current() const {
    UROCE_ASSERT(available());
    if (shared_ == nullptr) [[likely]]
      return own_.at(own_.retired());
    return taken_ != nullptr ? *taken_ : shared_->front();
  }
  [[nodiscard]] std::span<const queue::Segment> segments(const queue::ReceiveRequest& current) const {
    return shared_ == nullptr ? own_.segments(current) : shared_->segments(current);
  }
  /// The current request belongs to this queue pair from now on.
  void take() {
    UROCE_ASSERT(available());
    if (shared_ != nullptr && taken_ == nullptr) taken_ = &shared_->take();
  }
  /// The current request is done with.
  void retire() {
    if (shared_ == nullptr) [[likely]]
      return own_.retire();
    take();
    UROCE_ASSERT(taken_ != nullptr);
    shared_->give_back(*taken_);
    taken_ = nullptr;
  }

  /// How many are the queue pair's own, and end with it: all of its queue; of a shared one what it took.
  [[nodiscard]] uint32_t waiting() const {
    if (shared_ == nullptr) [[likely]]
      return own_.published() - own_.retired();
    return taken_ != nullptr ? 1 : 0;
  }

 private:
  queue::ReceiveQueue& own_;
  queue::SharedReceiveQueue* shared_;
  bool are_shared_;
  queue::ReceiveRequest* taken_ = nullptr;  // of the shared queue
};

}  // namespace uroce::qp
