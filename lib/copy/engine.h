#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace uroce::copy {

/// Something that copies bytes while its user does other things: a DMA engine. It goes through the addresses
/// of this process. One user, one thread at a time; no call blocks except stop().
class Engine {
 public:
  virtual ~Engine() = default;

  /// Hands over one copy; the ranges do not overlap, and must stay what they are until it has ended. False:
  /// there is no room, or the engine has been stopped. It may begin at once, but need not before start().
  virtual bool submit(std::byte* to, const std::byte* from, uint32_t length) = 0;
  /// Everything that was submitted shall begin.
  virtual void start() = 0;

  /// How copies ended, in the order in which they were submitted, and whatever the order in which they were
  /// made. What a successful copy wrote is visible to the caller.
  enum class Outcome : uint8_t { kCopied, kFailed };
  /// Fills a prefix of `outcomes` with those of the oldest copies that have ended since the last call; how
  /// many.
  virtual size_t ended(std::span<Outcome> outcomes) = 0;

  /// For ever. Copies that have not ended are given up, and nothing is read or written any more when it
  /// returns. `overdue`: because they should have ended long ago, which is worth telling.
  virtual void stop(bool overdue) = 0;
};

/// How a thread that cannot go on without a copy waits for it: below the engine there is no clock.
class Patience {
 public:
  virtual ~Patience() = default;
  /// The wait begins.
  virtual void begin() = 0;
  /// Lets others run for a moment. False: it has lasted too long.
  virtual bool wait() = 0;
};

}  // namespace uroce::copy
