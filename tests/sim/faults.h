#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/values/random.h"
#include "base/values/time.h"
#include "tests/sim/frame.h"

// What a network does to frames, in pieces that are chained. A new fault is a new node.
namespace uroce::sim {

using Sink = std::function<void(FramePtr)>;

class Node {
 public:
  virtual ~Node() = default;
  /// Takes a frame that is here at frame->arrival; hands on none, one or more to `next`.
  virtual void pass(FramePtr frame, Random& random, const Sink& next) = 0;
};

using Path = std::vector<std::unique_ptr<Node>>;

/// Probabilities are per 100,000 frames.
inline constexpr uint64_t kPer = 100'000;

/// Loses frames.
class Drop final : public Node {
 public:
  explicit Drop(uint64_t probability) : probability_(probability) {}
  void pass(FramePtr frame, Random& random, const Sink& next) override;

 private:
  uint64_t probability_;
};

/// Loses everything from `begin` to `end`.
class Outage final : public Node {
 public:
  Outage(Instant begin, Instant end) : begin_(begin), end_(end) {}
  void pass(FramePtr frame, Random& random, const Sink& next) override;

 private:
  Instant begin_;
  Instant end_;
};

/// Delivers some frames twice, the copy up to `later` after the original.
class Duplicate final : public Node {
 public:
  Duplicate(uint64_t probability, Duration later) : probability_(probability), later_(later) {}
  void pass(FramePtr frame, Random& random, const Sink& next) override;

 private:
  uint64_t probability_;
  Duration later_;
};

/// Every frame takes `time`; some take up to `extra` more and so are overtaken by others.
class Delay final : public Node {
 public:
  Delay(Duration time, uint64_t probability, Duration extra)
      : time_(time), probability_(probability), extra_(extra) {}
  void pass(FramePtr frame, Random& random, const Sink& next) override;

 private:
  Duration time_;
  uint64_t probability_;
  Duration extra_;
};

/// Changes one to three bytes, anywhere.
class Corrupt final : public Node {
 public:
  explicit Corrupt(uint64_t probability) : probability_(probability) {}
  void pass(FramePtr frame, Random& random, const Sink& next) override;

 private:
  uint64_t probability_;
};

/// Cuts frames off.
class Truncate final : public Node {
 public:
  explicit Truncate(uint64_t probability) : probability_(probability) {}
  void pass(FramePtr frame, Random& random, const Sink& next) override;

 private:
  uint64_t probability_;
};

}  // namespace uroce::sim
