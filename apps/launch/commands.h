#pragma once

namespace uroce::launch {

/// A command of the program uroce.
struct Command {
  const char* name;
  const char* help;  // one line
};

inline constexpr Command kRun{"run", "Run a program over uroce: uroce run [OPTIONS] -- PROGRAM [ARGUMENTS]"};
inline constexpr Command kPerf{"perf", "Benchmark RC, UC and UD on any verbs device"};
inline constexpr Command kNvmf{"nvmf", "Export files, block devices and memory over NVMe-oF (NVMe/RDMA)"};
inline constexpr Command kMem{"mem", "Export memory by name, and read and write what is exported"};
inline constexpr Command kServe{"serve", "Share devices among the programs of this host"};
inline constexpr Command kStatus{"status", "Show the programs that share this host's devices"};
inline constexpr Command kStat{"stat", "Show what processes count, while they run"};
inline constexpr Command kQp{"qp", "Show queue pairs of all processes"};
inline constexpr Command kTop{"top", "Watch queue pairs and counters in a terminal"};
inline constexpr Command kExporter{"exporter", "Serve what processes count to Prometheus"};
inline constexpr Command kFault{"fault", "Break what programs of this host receive, on purpose"};
inline constexpr Command kExplain{"explain", "Say what a completion status or errno means here"};
inline constexpr Command kReload{"reload", "Have the service read its configuration again"};
inline constexpr Command kDecode{"decode", "Say what is in a capture of RoCEv2, and what is wrong with it"};
inline constexpr Command kDump{"dump", "Capture frames of running programs in a file of pcapng"};
inline constexpr Command kInfo{"info", "Show devices, ports, limits, and what of the machine is used"};

}  // namespace uroce::launch
