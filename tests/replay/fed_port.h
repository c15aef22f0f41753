#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "base/values/time.h"
#include "port/port.h"

namespace uroce::replay {

/// A port whose other end is the test: what is fed arrives with the next turn, what is sent is kept, with the
/// virtual time.
class FedPort final : public port::Port, private port::PortQueue {
 public:
  using Bytes = std::vector<std::byte>;

  explicit FedPort(MacAddress mac);

  void feed(Bytes frame) { waiting_.push_back(std::make_unique<Bytes>(std::move(frame))); }
  struct Sent {
    Bytes frame;
    Instant time;
  };
  std::vector<Sent> take_sent() { return std::exchange(sent_, {}); }

  [[nodiscard]] const port::Capabilities& capabilities() const override { return capabilities_; }
  port::PortQueue& queue(uint16_t) override { return *this; }
  [[nodiscard]] bool link_up() const override { return true; }

 private:
  uint16_t receive(std::span<port::RxFrame> frames) override;
  void release(std::span<const port::RxFrame> frames) override;
  uint16_t allocate(std::span<port::TxFrame> frames) override;
  uint16_t transmit(std::span<const port::TxFrame> frames) override;
  void free(std::span<const port::TxFrame> frames) override;
  port::RxFrame loop(const port::TxFrame& frame) override;

  port::Capabilities capabilities_;
  std::deque<std::unique_ptr<Bytes>> waiting_;
  std::vector<Sent> sent_;
};

}  // namespace uroce::replay
