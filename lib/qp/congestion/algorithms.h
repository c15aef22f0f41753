#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

// The table of congestion control: an algorithm is its file and its row here. Keys of [congestion], options,
// help, names in tools and numbers of urocedv follow from the row.
//
// A parameter is what a site alone can know: its links, its switches, its distances. Constants of the papers
// stay constants in the algorithm's file, because the papers chose them together, and one that is changed
// alone makes an algorithm that was never evaluated. Cost: an experiment with other constants needs a build.
namespace uroce::qp {

class CongestionAlgorithm;
struct CongestionOptions;

/// Decides how fast a queue pair sends: the number of a row of kCongestionAlgorithms. Numbers are those of
/// urocedv, so that rows stay where they are.
enum class CongestionControl : uint8_t { kNone, kDcqcn, kSwift };

/// A number that a site sets for an algorithm: a key of [congestion].
struct CongestionParameter {
  std::string_view key;
  std::string_view unit;
  uint32_t least = 0;
  uint32_t most = 0;
  uint32_t initial = 0;  // unless it is set
  std::string_view help;
};

/// Makes the algorithm for one queue pair. nullptr: there is no memory.
using MakeCongestionAlgorithm = std::unique_ptr<CongestionAlgorithm>(const CongestionOptions& options);
// In the files of the algorithms.
MakeCongestionAlgorithm make_dcqcn;
MakeCongestionAlgorithm make_swift;

inline constexpr size_t kParametersOfAlgorithmMax = 4;

struct CongestionRow {
  std::string_view name;
  std::string_view help;
  bool needs_ecn = false;      // marks of switches: packets leave as ECT(0)
  bool needs_answers = false;  // round trips: not for UC, and requests alone are limited
  MakeCongestionAlgorithm* make = nullptr;
  std::array<CongestionParameter, kParametersOfAlgorithmMax> parameters = {};  // none: without a key
};

inline constexpr CongestionRow kCongestionAlgorithms[] = {
    {.name = "none", .help = "nothing but its window"},
    {.name = "dcqcn",
     .help = "CNPs of its peer, which marks of switches (ECN) bring about; packets leave as ECT(0)",
     .needs_ecn = true,
     .make = make_dcqcn,
     // The driver of a port without a link of its own (veth, memif) does not know the speed.
     .parameters = {{{.key = "line_mbps",
                      .unit = "Mbit/s",
                      .most = 10'000'000,
                      .help = "speed of the link, at which there is no limit any more; 0: the port's"}}}},
    {.name = "swift",
     .help = "round trips that become longer, without help of switches (RC and XRC)",
     .needs_answers = true,
     .make = make_swift,
     // Lengths of paths and buffers of switches are the network's.
     .parameters = {{{.key = "base_us",
                      .unit = "us",
                      .most = 1'000'000,
                      .help = "round trip of the longest path without queues; 0: measured"},
                     {.key = "target_us",
                      .unit = "us",
                      .least = 1,
                      .most = 1'000'000,
                      .initial = 50,
                      .help = "delay by queues that is aimed at, which buffers of switches have to hold"}}}},
};

inline constexpr size_t kCongestionAlgorithmCount = std::size(kCongestionAlgorithms);

/// The row of an algorithm, which `control` has to have.
constexpr const CongestionRow& row_of(CongestionControl control) {
  return kCongestionAlgorithms[static_cast<size_t>(control)];
}
static_assert(row_of(CongestionControl::kNone).make == nullptr);
static_assert(row_of(CongestionControl::kDcqcn).name == "dcqcn");
static_assert(row_of(CongestionControl::kSwift).name == "swift");

// What programs without queue pairs read of the table. They have no algorithms that its rows could make.

inline constexpr auto kCongestionNames = [] {
  std::array<std::string_view, kCongestionAlgorithmCount> names;
  for (size_t i = 0; i < names.size(); ++i) names[i] = kCongestionAlgorithms[i].name;
  return names;
}();
inline constexpr auto kCongestionHelp = [] {
  std::array<std::string_view, kCongestionAlgorithmCount> texts;
  for (size_t i = 0; i < texts.size(); ++i) texts[i] = kCongestionAlgorithms[i].help;
  return texts;
}();

/// A parameter, and the name of the algorithm that it is of.
struct NamedParameter : CongestionParameter {
  std::string_view algorithm;
};

inline constexpr size_t kCongestionParameterCount = [] {
  size_t count = 0;
  for (const CongestionRow& row : kCongestionAlgorithms)
    for (const CongestionParameter& parameter : row.parameters) count += parameter.key.empty() ? 0 : 1;
  return count;
}();
/// The parameters of all rows, one after the other.
inline constexpr auto kCongestionParameters = [] {
  std::array<NamedParameter, kCongestionParameterCount> all{};
  size_t count = 0;
  for (const CongestionRow& row : kCongestionAlgorithms)
    for (const CongestionParameter& parameter : row.parameters)
      if (!parameter.key.empty()) all[count++] = {parameter, row.name};
  return all;
}();

}  // namespace uroce::qp
