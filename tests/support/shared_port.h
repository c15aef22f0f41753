#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "host/connection_rows.h"
#include "host/port_numbers.h"
#include "host/shared_device.h"
#include "port/port.h"

namespace uroce::testing {

/// What a host's service keeps for all programs, without a service: this process is the program kSelf, and a
/// test plays the others.
class FakeHost {
 public:
  static constexpr uint32_t kSelf = 1;
  static constexpr uint32_t kOther = 2;
  /// Queue pair numbers of the other program.
  static constexpr NumberBlock kOtherNumbers{.first = 0xF0'0000, .count = 1u << host::kBlockBits};

  /// Under the lock: the ports of all programs at the device with that MAC.
  template <typename Function>
  auto with_ports(MacAddress device, Function function) {
    const std::lock_guard guard(mutex_);
    return function(ports_.try_emplace(device, 1).first->second);
  }
  /// Under the lock: how often each group was joined and not left.
  template <typename Function>
  auto with_groups(Function function) {
    const std::lock_guard guard(mutex_);
    return function(groups_);
  }
  /// Looks at each frame that leaves a device, and may change it; must not call this object. Null: none does.
  using Tap = std::function<void(std::span<std::byte> frame)>;
  void set_tap(Tap tap) {
    const std::lock_guard guard(mutex_);
    tap_ = std::move(tap);
  }
  void tap(const port::TxFrame& frame) {
    const std::lock_guard guard(mutex_);
    if (tap_) tap_({frame.data, frame.length});
  }
  /// An errno that each request fails with, 0: none does.
  void fail(int error) {
    const std::lock_guard guard(mutex_);
    error_ = error;
  }
  [[nodiscard]] Status outcome() {
    const std::lock_guard guard(mutex_);
    return error_ == 0 ? Status{} : Error{error_, "the test says so"};
  }

 private:
  std::mutex mutex_;
  std::map<MacAddress, host::PortNumbers> ports_;
  std::map<Gid, int> groups_;
  Tap tap_;
  int error_ = 0;
};

/// A device of that host: its one address is 192.0.2.N/24, with N the last byte of its MAC. It knows no
/// neighbours, so those that a test needs stand in the configuration.
class FakeSharedDevice final : public host::SharedDevice {
 public:
  struct Options {
    MacAddress mac;
    NumberBlock numbers;
    uint32_t link_mtu;
  };
  FakeSharedDevice(FakeHost& host, const Options& options) : host_(host), options_(options) {}

  [[nodiscard]] NumberBlock numbers() const override { return options_.numbers; }
  [[nodiscard]] std::vector<host::SharedAddress> addresses() const override {
    return {{.address = Gid::from_ipv4({192, 0, 2, options_.mac.bytes[5]}), .prefix_bits = 120}};
  }
  [[nodiscard]] std::vector<uint16_t> partition_keys() const override { return {0xFFFF}; }
  bool is_anothers(QpNumber number) override {
    return host_.outcome().ok() && FakeHost::kOtherNumbers.contains(number);
  }
  [[nodiscard]] uint32_t link_mtu() const override { return options_.link_mtu; }
  [[nodiscard]] uint32_t programs() const override { return 2; }

  Result<uint16_t> bind(uint64_t id, const host::PortRequest& request) override {
    if (const Status outcome = host_.outcome(); !outcome) return outcome.error();
    return host_.with_ports(options_.mac, [&](host::PortNumbers& ports) {
      return ports.bind(request, {.owner = FakeHost::kSelf, .id = id});
    });
  }
  Status listen(uint64_t id) override {
    if (const Status outcome = host_.outcome(); !outcome) return outcome;
    return host_.with_ports(options_.mac, [&](host::PortNumbers& ports) {
      return ports.claim({.owner = FakeHost::kSelf, .id = id});
    });
  }
  void release(uint64_t id) override {
    host_.with_ports(options_.mac,
                     [&](host::PortNumbers& ports) { ports.release({.owner = FakeHost::kSelf, .id = id}); });
  }
  Status join(const Gid& group) override {
    if (const Status outcome = host_.outcome(); !outcome) return outcome;
    host_.with_groups([&](auto& groups) { ++groups[group]; });
    return {};
  }
  void leave(const Gid& group) override {
    host_.with_groups([&](auto& groups) { --groups[group]; });
  }
  std::optional<Gid> source_to(const Gid& destination) override {
    const Gid ours = addresses().front().address;
    const bool on_link = std::equal(ours.bytes.begin(), ours.bytes.end() - 1, destination.bytes.begin());
    return on_link ? std::optional(ours) : std::nullopt;
  }
  void resolve(const host::Neighbour&) override {}
  void show_queue_pairs(uint32_t) override {}
  host::ConnectionRows connection_rows() override { return {}; }
  std::span<FaultCounts> fault_counts() override { return fault_counts_; }
  void start(host::SharedDeviceListener&) override {}
  void stop() override {}

 private:
  FakeHost& host_;
  const Options options_;
  std::array<FaultCounts, 16> fault_counts_{};
};

/// Frames to another program of the host come back to this one, as the service brings those that are for it
/// after all.
class SharedQueue final : public port::PortQueue {
 public:
  SharedQueue(port::PortQueue& inner, FakeHost& host) : inner_(inner), host_(host) {}

  uint16_t receive(std::span<port::RxFrame> frames) override {
    uint16_t count = 0;
    for (; count < frames.size() && !on_host_.empty(); ++count) {
      frames[count] = on_host_.front();
      on_host_.pop_front();
    }
    return static_cast<uint16_t>(count + inner_.receive(frames.subspan(count)));
  }
  void release(std::span<const port::RxFrame> frames) override { inner_.release(frames); }
  uint16_t allocate(std::span<port::TxFrame> frames) override { return inner_.allocate(frames); }
  void free(std::span<const port::TxFrame> frames) override { inner_.free(frames); }
  uint16_t transmit(std::span<const port::TxFrame> frames) override {
    uint16_t taken = 0;
    for (const port::TxFrame& frame : frames) {
      host_.tap(frame);
      if (frame.on_host)
        on_host_.push_back(inner_.loop(frame));
      else if (inner_.transmit({&frame, 1}) == 0)
        break;
      carried_ += frame.on_host ? 1 : 0;
      ++taken;
    }
    return taken;
  }
  port::RxFrame loop(const port::TxFrame& frame) override { return inner_.loop(frame); }
  [[nodiscard]] uint64_t dropped() const override { return inner_.dropped(); }
  [[nodiscard]] uint64_t transmit_calls() const override { return inner_.transmit_calls(); }

  /// A frame comes that the program with that block has sent, as the service says; none: from outside.
  void bring(std::span<const std::byte> frame, BlockCode sender) {
    port::TxFrame room;
    if (inner_.allocate({&room, 1}) == 0 || frame.size() > room.capacity) return;
    std::ranges::copy(frame, room.data);
    room.length = static_cast<uint32_t>(frame.size());
    on_host_.push_back(inner_.loop(room));
    on_host_.back().sender = sender;
  }
  /// Frames to other programs.
  [[nodiscard]] uint64_t carried() const { return carried_; }

 private:
  port::PortQueue& inner_;
  FakeHost& host_;
  std::deque<port::RxFrame> on_host_;
  uint64_t carried_ = 0;
};

/// A port that this process shares with other programs of a host. Use with drivers::decorate_ports to get it
/// under a device.
class SharedPort final : public port::Port {
 public:
  SharedPort(std::unique_ptr<port::Port> inner, FakeHost& host, NumberBlock numbers)
      : inner_(std::move(inner)),
        device_(host, {.mac = inner_->capabilities().mac,
                       .numbers = numbers,
                       .link_mtu = inner_->capabilities().link_mtu}) {
    for (uint16_t i = 0; i < inner_->capabilities().queues; ++i)
      queues_.push_back(std::make_unique<SharedQueue>(inner_->queue(i), host));
  }
  [[nodiscard]] const port::Capabilities& capabilities() const override { return inner_->capabilities(); }
  SharedQueue& queue(uint16_t index) override { return *queues_.at(index); }
  [[nodiscard]] bool link_up() const override { return inner_->link_up(); }
  [[nodiscard]] port::FarEnd far_end() const override { return inner_->far_end(); }
  host::SharedDevice* shared_device() override { return &device_; }

 private:
  const std::unique_ptr<port::Port> inner_;
  FakeSharedDevice device_;
  std::vector<std::unique_ptr<SharedQueue>> queues_;
};

}  // namespace uroce::testing
