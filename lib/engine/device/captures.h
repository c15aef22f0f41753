#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/values/result.h"
#include "capture/order.h"
#include "capture/ring.h"
#include "capture/tap.h"
#include "engine/poller/poller_context.h"
#include "host/shared_memory.h"
#include "port/port.h"

namespace uroce::engine {

class Poller;

/// The frames of a device that are captured, from the order to its end, while its pollers run. Without one
/// there is nothing between a poller and its port.
class Captures {
 public:
  Captures(port::Port& port, const PollerContext& context) : port_(port), context_(context) {}

  // Any thread; pollers are turned.

  /// Begins a capture; the descriptor of the memory that it writes to. EBUSY: there is one already; ENOMEM.
  Result<int> start(std::span<const std::unique_ptr<Poller>> pollers, uint32_t id,
                    const capture::Order& order);
  /// Ends a capture. False: there is none of that number.
  bool stop(std::span<const std::unique_ptr<Poller>> pollers, uint32_t id);

 private:
  /// Queue pairs of one poller.
  class Finder final : public capture::QueuePairFinder {
   public:
    Finder(const PollerContext& context, const Poller& poller) : context_(context), poller_(poller) {}
    [[nodiscard]] std::optional<capture::QueuePairFacts> find(QpNumber number) const override;

   private:
    const PollerContext& context_;
    const Poller& poller_;
  };
  struct Part {
    std::unique_ptr<Finder> finder;
    std::unique_ptr<capture::Tap> tap;
  };
  struct Running {
    uint32_t id = 0;
    host::SealedMemory memory;
    std::vector<Part> parts;  // by poller
  };

  port::Port& port_;
  const PollerContext& context_;
  std::mutex mutex_;  // of what follows
  std::optional<Running> running_;
};

}  // namespace uroce::engine
