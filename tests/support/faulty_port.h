#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "port/port.h"

namespace uroce::testing {

enum class Fate : uint8_t { kPass, kDrop };

/// Sees every frame that leaves the port, own-address loop included, and may change bytes in place. Called by
/// whichever thread turns the queue.
using Tap = std::function<Fate(std::span<std::byte> frame)>;

class FaultyQueue final : public port::PortQueue {
 public:
  FaultyQueue(port::PortQueue& inner, const Tap& tap) : inner_(inner), tap_(tap) {}

  uint16_t receive(std::span<port::RxFrame> frames) override { return inner_.receive(frames); }
  void release(std::span<const port::RxFrame> frames) override { inner_.release(frames); }
  uint16_t allocate(std::span<port::TxFrame> frames) override { return inner_.allocate(frames); }
  void free(std::span<const port::TxFrame> frames) override { inner_.free(frames); }

  uint16_t transmit(std::span<const port::TxFrame> frames) override {
    uint16_t taken = 0;
    for (const port::TxFrame& frame : frames) {
      // A frame that the port refused was tapped already.
      const Fate fate =
          std::exchange(first_is_tapped_, false) ? Fate::kPass : tap_({frame.data, frame.length});
      if (fate == Fate::kDrop) {
        inner_.free({&frame, 1});
      } else if (inner_.transmit({&frame, 1}) == 0) {
        first_is_tapped_ = true;
        break;
      }
      ++taken;
    }
    return taken;
  }

  [[nodiscard]] uint64_t dropped() const override { return inner_.dropped(); }
  [[nodiscard]] uint64_t transmit_calls() const override { return inner_.transmit_calls(); }

  /// A dropped frame is looped with length 0: the buffer has to come back.
  port::RxFrame loop(const port::TxFrame& frame) override {
    port::RxFrame looped = inner_.loop(frame);
    if (tap_({looped.data, looped.length}) == Fate::kDrop) looped.length = 0;
    return looped;
  }

 private:
  port::PortQueue& inner_;
  const Tap& tap_;
  bool first_is_tapped_ = false;
};

/// A port with a fault on the wire. Use with drivers::decorate_ports to get it under a device.
class FaultyPort final : public port::Port {
 public:
  FaultyPort(std::unique_ptr<port::Port> inner, Tap tap) : inner_(std::move(inner)), tap_(std::move(tap)) {
    for (uint16_t i = 0; i < inner_->capabilities().queues; ++i) queues_.emplace_back(inner_->queue(i), tap_);
  }

  [[nodiscard]] const port::Capabilities& capabilities() const override { return inner_->capabilities(); }
  port::PortQueue& queue(uint16_t index) override { return queues_.at(index); }
  [[nodiscard]] bool link_up() const override { return inner_->link_up(); }
  [[nodiscard]] bool link_changes() const override { return inner_->link_changes(); }
  [[nodiscard]] bool gone() const override { return inner_->gone(); }
  [[nodiscard]] port::FarEnd far_end() const override { return inner_->far_end(); }

 private:
  const std::unique_ptr<port::Port> inner_;
  const Tap tap_;
  std::vector<FaultyQueue> queues_;
};

}  // namespace uroce::testing
