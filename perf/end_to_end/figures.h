#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>

#include "client/histogram.h"

namespace uroce::perf {

/// Figures by name, as JSON.
class Figures {
 public:
  void add(const std::string& name, double value) {
    text_ += fmt::format("{}\n  \"{}\": {:.6g}", text_.empty() ? "" : ",", name, value);
  }
  void add_rate(const std::string& name, double frames_per_second, uint32_t bytes) {
    add(name + ".frames_per_second", frames_per_second);
    add(name + ".gigabits_per_second", frames_per_second * bytes * 8 / 1e9);
  }
  void add_round_trips(const std::string& name, const client::Histogram& samples) {
    for (const auto& [percent, percentile] :
         {std::pair{50.0, "p50"}, std::pair{99.0, "p99"}, std::pair{99.9, "p999"}}) {
      add(fmt::format("{}.round_trip_{}_us", name, percentile),
          static_cast<double>(samples.percentile(percent)) / 1000);
    }
  }
  void print() const { fmt::print("{{{}\n}}\n", text_); }

 private:
  std::string text_;
};

}  // namespace uroce::perf
