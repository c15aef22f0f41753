#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/values/random.h"
#include "tests/support/late_engine.h"

namespace uroce::sim {

/// A copy engine that has done some more of its copies now and then when it is asked.
class SlowEngine final : public copy::Engine {
 public:
  explicit SlowEngine(uint64_t seed) : random_(seed) {}

  bool submit(std::byte* to, const std::byte* from, uint32_t length) override {
    return engine_.submit(to, from, length);
  }
  void start() override { engine_.start(); }
  size_t ended(std::span<Outcome> outcomes) override {
    if (random_.chance(1, 4)) engine_.finish(1 + random_.below(20));
    return engine_.ended(outcomes);
  }
  void stop(bool overdue) override { engine_.stop(overdue); }

 private:
  Random random_;
  copy::LateEngine engine_;
};

}  // namespace uroce::sim
