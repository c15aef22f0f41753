#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/perf/plan/plan.h"
#include "client/histogram.h"

namespace uroce::perf {

/// A kind of message, and how often it comes beside the others.
struct MixPart {
  Operation operation = Operation::kWrite;
  uint64_t size = 0;
  uint32_t weight = 1;

  [[nodiscard]] bool operator==(const MixPart&) const = default;
};

/// When messages are to be sent that have a rate.
enum class Spacing : uint8_t { kEven, kPoisson };

constexpr uint32_t kQueuePairsMax = 65536;
constexpr uint32_t kThreadsMax = 256;
constexpr uint32_t kWeightsMax = 1000;  // sum of a mix
constexpr size_t kPartsMax = 64;        // of a mix
constexpr double kRateMax = 1e10;       // messages a second

/// Traffic of many queue pairs at once. What is divided among threads and peers is said as the whole.
struct Load {
  std::string name;  // for the report
  std::vector<MixPart> mix;
  uint32_t queue_pairs = 1;
  uint32_t threads = 1;
  uint32_t depth = 128;  // messages outstanding of a queue pair
  bool bidirectional = false;
  double rate = 0;  // messages a second in each direction; 0: as many as there is room for
  Spacing spacing = Spacing::kEven;
  double warm_up_s = 0.1;
  double duration_s = 0.5;
};

/// "even" or "poisson".
Result<Spacing> parse_spacing(std::string_view text);

/// A load as a TOML file has it. Errors name the file, the line and the key.
Result<Load> read_profile(const std::string& path);

/// "write 64 B", "read 4 KiB".
std::string text_of(const MixPart& part);

/// Kinds of message in the order in which they are sent: each as often in the whole as its weight says, in an
/// order that the seed decides.
std::vector<uint8_t> shuffled(const std::vector<MixPart>& mix, uint64_t seed);

/// One run of a load at one end.
struct LoadRun {
  std::chrono::steady_clock::time_point start;
  std::chrono::nanoseconds warm_up{};
  std::chrono::nanoseconds measured{};
  double rate = 0;    // of this end
  double offset = 0;  // of its first message, as a part of the time between two
  Spacing spacing = Spacing::kEven;
  uint64_t seed = 1;
  bool sends = true;
};

/// What one end saw of a run. Times are those of its own clock.
struct LoadCounts {
  static constexpr size_t kSlices = 20;  // of the measured time

  struct Part {
    uint64_t messages = 0;
    client::Histogram latency;  // from when it was to be sent until it completed
  };
  struct Slice {
    uint64_t messages = 0;
    uint64_t bytes = 0;
    client::Histogram latency;
  };

  std::vector<Part> parts;  // as in the mix
  std::vector<Slice> slices = std::vector<Slice>(kSlices);
  uint64_t intended = 0;  // in the measured time, with a rate
  double seconds = 0;     // from the beginning of the measured time until its last message was sent
  uint64_t sent = 0;      // in all of the run
  uint64_t received = 0;
  uint64_t bytes_verified = 0;

  void add(const LoadCounts& other);
};

}  // namespace uroce::perf
