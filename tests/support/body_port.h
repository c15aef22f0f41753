#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "port/frame_body.h"
#include "port/port.h"

namespace uroce::testing {

/// Leaves the bodies of long frames in memory of their sender, which writes something else there as soon as
/// it may.
class BodyQueue final : public port::PortQueue {
 public:
  BodyQueue(port::PortQueue& inner, bool has_icrc) : inner_(inner), has_icrc_(has_icrc) {}

  uint16_t receive(std::span<port::RxFrame> frames) override {
    for (std::vector<std::byte>& body : bodies_) std::ranges::fill(body, kOther);
    last_ = std::exchange(bodies_, {});
    const uint16_t count = inner_.receive(frames);
    for (port::RxFrame& frame : frames.first(count)) {
      frame.has_icrc = has_icrc_;
      if (!leaves_bodies_ || frame.length < port::kFrameWithBodyMin) continue;
      bodies_.emplace_back(frame.data, frame.data + frame.length);
      std::fill_n(frame.data, frame.length, kOther);
      port::take_head_and_tail(frame, bodies_.back().data());
      ++left_;
    }
    return count;
  }
  void release(std::span<const port::RxFrame> frames) override { inner_.release(frames); }
  void leave_bodies() override { leaves_bodies_ = true; }
  uint16_t allocate(std::span<port::TxFrame> frames) override { return inner_.allocate(frames); }
  void free(std::span<const port::TxFrame> frames) override { inner_.free(frames); }
  uint16_t transmit(std::span<const port::TxFrame> frames) override { return inner_.transmit(frames); }
  port::RxFrame loop(const port::TxFrame& frame) override { return inner_.loop(frame); }

  /// Frames whose bodies were left.
  [[nodiscard]] size_t left() const { return left_; }

 private:
  static constexpr std::byte kOther{0xA5};

  port::PortQueue& inner_;
  const bool has_icrc_;
  bool leaves_bodies_ = false;
  size_t left_ = 0;
  std::vector<std::vector<std::byte>> bodies_;
  std::vector<std::vector<std::byte>> last_;  // read too late they show it; so that they are not freed memory
};

/// Use with drivers::decorate_ports to get it under a device.
class BodyPort final : public port::Port {
 public:
  BodyPort(std::unique_ptr<port::Port> inner, bool has_icrc)
      : inner_(std::move(inner)), queue_(inner_->queue(0), has_icrc) {}
  [[nodiscard]] const port::Capabilities& capabilities() const override { return inner_->capabilities(); }
  BodyQueue& queue(uint16_t) override { return queue_; }
  [[nodiscard]] bool link_up() const override { return inner_->link_up(); }
  [[nodiscard]] port::FarEnd far_end() const override { return inner_->far_end(); }

 private:
  const std::unique_ptr<port::Port> inner_;
  BodyQueue queue_;
};

}  // namespace uroce::testing
