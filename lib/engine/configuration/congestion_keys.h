#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "engine/configuration/key.h"
#include "qp/congestion/options.h"

// The keys of [congestion]: a part of the list of keys.cc.
namespace uroce::engine {

/// Stores the value that a word stands for.
template <typename T, size_t N>
configuration::Complaint store_choice(const toml::node& value, T& to,
                                      const std::array<std::pair<std::string_view, T>, N>& choices) {
  const auto* text = value.as_string();
  std::string known;
  for (const auto& [name, choice] : choices) {
    if (text != nullptr && text->get() == name) {
      to = choice;
      return std::nullopt;
    }
    known += fmt::format("{}\"{}\"", known.empty() ? "" : ", ", name);
  }
  return fmt::format("must be one of {}", known);
}

inline constexpr std::array<std::pair<std::string_view, qp::CongestionControl>, 3> kCongestionControls = {
    {{"none", qp::CongestionControl::kNone},
     {"dcqcn", qp::CongestionControl::kDcqcn},
     {"swift", qp::CongestionControl::kSwift}}};

inline configuration::Complaint store_line_rate(const toml::node& value, KeyTarget to) {
  qp::DcqcnOptions& dcqcn = to.configuration.congestion.dcqcn;
  uint32_t mbps = 0;
  auto complaint = configuration::store_integer(value, mbps, 0, 10'000'000);
  if (complaint) return complaint;
  dcqcn.line_of_port = mbps == 0;
  if (mbps != 0) dcqcn.line_mbps = mbps;
  return complaint;
}

inline qp::CongestionOptions& part(qp::CongestionOptions& all, auto qp::CongestionOptions::*) { return all; }
inline qp::DcqcnOptions& part(qp::CongestionOptions& all, auto qp::DcqcnOptions::*) { return all.dcqcn; }
inline qp::SwiftOptions& part(qp::CongestionOptions& all, auto qp::SwiftOptions::*) { return all.swift; }

/// Stores a number from `lowest` to `highest` in a member of the options or of an algorithm's.
template <auto member, int64_t lowest, int64_t highest>
configuration::Complaint store_number(const toml::node& value, KeyTarget to) {
  qp::CongestionOptions& all = to.configuration.congestion;
  return configuration::store_integer(value, part(all, member).*member, lowest, highest);
}

inline constexpr std::array<Key, 18> kCongestionKeys = {{
    {{"congestion.control", "none, dcqcn or swift",
      "what slows queue pairs down: nothing but their windows, the CNPs of their peers, or round trips"},
     ValueKind::kText,
     [](const toml::node& v, KeyTarget t) {
       return store_choice(v, t.configuration.congestion.control, kCongestionControls);
     }},
    {{"congestion.cnp_interval_us", "number",
      "microseconds between two CNPs to a queue pair whose packets come marked; 0: none"},
     ValueKind::kNumber,
     store_number<&qp::CongestionOptions::cnp_interval_us, 0, 1'000'000>},
    {{"congestion.cnp_dscp", "number", "DSCP of CNPs"},
     ValueKind::kNumber,
     store_number<&qp::CongestionOptions::cnp_dscp, 0, 63>},
    {{"congestion.line_mbps", "number",
      "dcqcn: Mbit/s that the first CNP finds, and above which there is no limit; 0: the port's"},
     ValueKind::kNumber,
     store_line_rate},
    {{"congestion.least_mbps", "number", "dcqcn: Mbit/s that no CNP goes below"},
     ValueKind::kNumber,
     store_number<&qp::DcqcnOptions::least_mbps, 1, 1'000'000>},
    {{"congestion.additive_mbps", "number", "dcqcn: R_AI, Mbit/s"},
     ValueKind::kNumber,
     store_number<&qp::DcqcnOptions::additive_mbps, 1, 1'000'000>},
    {{"congestion.hyper_mbps", "number", "dcqcn: R_HAI, Mbit/s"},
     ValueKind::kNumber,
     store_number<&qp::DcqcnOptions::hyper_mbps, 1, 1'000'000>},
    {{"congestion.gain_shift", "number", "dcqcn: g is 1/2^gain_shift"},
     ValueKind::kNumber,
     store_number<&qp::DcqcnOptions::gain_shift, 1, 16>},
    {{"congestion.alpha_us", "number", "dcqcn: period of the timer of alpha"},
     ValueKind::kNumber,
     store_number<&qp::DcqcnOptions::alpha_us, 1, 1'000'000>},
    {{"congestion.increase_us", "number", "dcqcn: T, period of the increase timer"},
     ValueKind::kNumber,
     store_number<&qp::DcqcnOptions::increase_us, 1, 1'000'000>},
    {{"congestion.increase_kib", "number", "dcqcn: B, KiB of the byte counter"},
     ValueKind::kNumber,
     store_number<&qp::DcqcnOptions::increase_kib, 1, 1 << 22>},
    {{"congestion.recovery_stages", "number", "dcqcn: F, stages of fast recovery"},
     ValueKind::kNumber,
     store_number<&qp::DcqcnOptions::recovery_stages, 1, 100>},
    {{"congestion.base_us", "number",
      "swift: microseconds of the longest path's round trip without queues; 0: measured"},
     ValueKind::kNumber,
     store_number<&qp::SwiftOptions::base_us, 0, 1'000'000>},
    {{"congestion.target_us", "number", "swift: microseconds of queues that round trips may show"},
     ValueKind::kNumber,
     store_number<&qp::SwiftOptions::target_us, 1, 1'000'000>},
    {{"congestion.scaling_us", "number", "swift: fs_range, microseconds more for a small window"},
     ValueKind::kNumber,
     store_number<&qp::SwiftOptions::scaling_us, 0, 1'000'000>},
    {{"congestion.increase_percent", "number", "swift: ai, in percent of a packet in a round trip"},
     ValueKind::kNumber,
     store_number<&qp::SwiftOptions::increase_percent, 1, 10'000>},
    {{"congestion.beta_percent", "number", "swift: beta, decrease by what is beyond the target"},
     ValueKind::kNumber,
     store_number<&qp::SwiftOptions::beta_percent, 1, 100>},
    {{"congestion.decrease_percent", "number", "swift: max_mdf, no decrease is by more"},
     ValueKind::kNumber,
     store_number<&qp::SwiftOptions::decrease_percent, 1, 90>},
}};

}  // namespace uroce::engine
