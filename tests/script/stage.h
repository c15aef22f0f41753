#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/device/device.h"
#include "engine/device/device_state.h"
#include "memory.h"
#include "tests/replay/fed_port.h"

namespace uroce::script {

/// A queue pair of the script: what it was made with, and what it has told.
class Actor final : public qp::EventListener {
 public:
  void raised(qp::Event event) override { events.push_back(event); }

  std::string name;
  qp::Type type = qp::Type::kRc;
  engine::QpSlot* queue_pair = nullptr;
  qp::Attributes attributes;
  QpNumber peer;  // the script's
  std::unique_ptr<queue::CompletionQueue> sends;
  std::unique_ptr<queue::CompletionQueue> receives;
  std::deque<queue::Completion> send_completions;
  std::deque<queue::Completion> receive_completions;
  std::deque<qp::Event> events;
  std::vector<Gid> groups;  // attached to
};

/// A receive queue that the script's queue pairs may share.
class SharedReceives final : public queue::LimitListener {
 public:
  void limit_reached(queue::SharedReceiveQueue&) override { ++limits_reached; }

  std::unique_ptr<engine::SharedReceives> receives;
  size_t limits_reached = 0;
  // XRC: where its receives complete.
  std::unique_ptr<queue::CompletionQueue> completions;
  std::deque<queue::Completion> completed;
};

/// A device of the real engine in virtual time, whose wire and clock are the script's.
class Stage {
 public:
  Stage();
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  // The two ends of the wire.
  static wire::Path path_to_peer(bool ipv6);

  [[nodiscard]] engine::Device& device() { return *device_; }
  [[nodiscard]] Memory& memory() { return *memory_; }
  [[nodiscard]] DomainId domain() const { return domain_; }

  /// In RESET. `options` without domain, queues and listener.
  Actor& add_queue_pair(const Line& line, const std::string& name, engine::QueuePairOptions options);
  SharedReceives& add_shared_receives(const Line& line, const std::string& name, uint32_t depth, bool xrc);
  /// "s" or a number.
  [[nodiscard]] uint32_t receives_number(const Line& line, const std::string& text);
  [[nodiscard]] engine::XrcDomain& xrc_domain();
  [[nodiscard]] Actor& actor(const Line& line, const std::string& name);
  [[nodiscard]] SharedReceives& shared_receives(const Line& line, const std::string& name);
  [[nodiscard]] std::map<std::string, std::unique_ptr<Actor>>& actors() { return actors_; }
  [[nodiscard]] const std::map<std::string, std::unique_ptr<SharedReceives>>& all_shared() const {
    return shared_;
  }
  void destroy(Actor& actor);

  // Time.
  [[nodiscard]] static Instant now();
  void feed(Bytes frame) { port_.feed(std::move(frame)); }
  /// One turn of the poller, and takes what came of it.
  void turn();
  /// Turns until there is nothing to do, and takes what came of it.
  void settle();
  /// The same after the time up to the next deadline, at most `limit`.
  void pass(Duration limit);

  // What came and was not looked at yet.
  std::deque<replay::FedPort::Sent> sent;

  [[nodiscard]] uint64_t counter(Counter counter) const { return device_->counter(counter); }

 private:
  explicit Stage(std::unique_ptr<replay::FedPort> port);
  void collect();

  replay::FedPort& port_;
  engine::DeviceState* state_ = nullptr;
  std::unique_ptr<engine::Device> device_;
  DomainId domain_;
  DomainId other_domain_;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<engine::XrcDomain> xrc_domain_;  // of all that is XRC
  std::map<std::string, std::unique_ptr<SharedReceives>> shared_;
  std::map<std::string, std::unique_ptr<Actor>> actors_;
};

}  // namespace uroce::script
