#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/perf/measurement/machine.h"
#include "apps/perf/plan/plan.h"
#include "client/histogram.h"

namespace uroce::perf {

/// 0 where nothing was counted.
inline double per(double sum, uint64_t messages) {
  return messages == 0 ? 0 : sum / static_cast<double>(messages);
}

inline double microseconds(uint64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1000; }

struct Bandwidth {
  uint64_t messages = 0;  // sent
  uint64_t received = 0;
  double seconds = 0;
  double gigabits_per_second = 0;  // of what was received
  double messages_per_second = 0;
  // Of both ends, whether they are in one process or in two.
  double cpu_ns = 0;                 // of a message
  double peer_cpu_ns = 0;            // the part of it that another process took
  double cycles = 0;                 // of a message, of the time stamp counter
  std::vector<double> rate_samples;  // messages a second in parts of the time, for comparisons
};

/// Round trips in microseconds.
struct Latency {
  uint64_t samples = 0;
  uint64_t lost = 0;  // pings without an answer
  double p50_us = 0;
  double p99_us = 0;
  double p999_us = 0;
  double interval_us = 0;  // from one ping to the next, with the ping's completion; median
  double cpu_ns = 0;       // as above, of a round trip
  double peer_cpu_ns = 0;
  double cycles = 0;
  client::Histogram histogram = {};      // in nanoseconds
  std::vector<double> p50_samples = {};  // in parts of the time
  std::vector<double> p99_samples = {};
};

/// What became of a load, or of one kind of its messages, in one direction.
struct LoadFigures {
  std::string name;       // "write.64", "mix", "mix.read.4096"
  std::string text;       // "write 64 B", "all"
  bool back = false;      // from the peer to this end
  uint64_t messages = 0;  // in the measured time
  uint64_t lost = 0;      // in all of the run
  double offered = 0;     // messages a second; 0: as many as there was room for
  double messages_per_second = 0;
  double gigabits_per_second = 0;
  // Of the whole load, of this process and, where it is another one, the peer's.
  double cpu_ns = 0;  // of a message, whichever direction it had
  double cycles = 0;
  client::Histogram latency = {};  // from when a message was to be sent until it completed
  std::vector<double> rate_samples = {};
  std::vector<double> p50_samples = {};
  std::vector<double> p99_samples = {};
  uint64_t bytes_verified = 0;
};

/// A step of the search for the highest rate.
struct RampStep {
  double offered = 0;
  double achieved = 0;
  uint64_t lost = 0;
  double p50_us = 0;
  double p99_us = 0;
  bool held = false;
};

/// The search, and what it found.
struct Ramp {
  std::string name;  // of the load
  std::vector<RampStep> steps;
  double highest = 0;  // messages a second that are held; 0: none was
};

/// All that was measured of one operation at one size.
struct Measurement {
  Operation operation = Operation::kWrite;
  uint64_t size = 0;
  std::optional<Bandwidth> bandwidth;
  std::optional<Latency> latency;
  uint64_t bytes_verified = 0;
};

/// What was measured, and between which ends.
struct Report {
  Description machine = {};
  Service service = Service::kRc;
  std::string device;
  std::string peer;  // device, or host
  std::string address;
  std::string peer_address;
  std::string arrangement;  // "both ends in this process", "client"
  uint32_t path_mtu = 0;
  uint32_t depth = 0;
  uint32_t slots = 0;         // places in memory that these take in turn; 0: one each
  uint32_t receive_list = 0;  // receives posted by one call; 0: as many as a poll found
  std::vector<Measurement> measurements;
  std::string load;  // "64 queue pairs, 2 threads ...", empty without one
  std::vector<LoadFigures> loads;
  std::vector<Ramp> ramps;
};

/// Tells the report of the devices and addresses of both ends.
inline void name_ends(Report& report, const client::VerbsDevice& device, const ibv_gid& peer) {
  report.machine = describe(device);
  report.device = device.name;
  report.address = client::text_of(device.gid);
  report.peer_address = client::text_of(peer);
}

}  // namespace uroce::perf
