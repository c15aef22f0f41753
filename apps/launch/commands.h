#pragma once

namespace uroce::launch {

/// A command of the program uroce.
struct Command {
  const char* name;
  /// What it does. The first line stands in the list of commands; --help begins with all of it.
  const char* help;
};

inline constexpr Command kRun{"run",
                              "Run a program over uroce.\n"
                              "The program is an unmodified one of verbs or rdma_cm. It finds our libibverbs "
                              "first, and replaces uroce: "
                              "streams, exit status and signals are its own.\n"};
inline constexpr Command kPerf{
    "perf",
    "Benchmark RC, UC and UD on any verbs device.\n"
    "It measures bandwidth, messages per second and latency of WRITE, READ, SEND and atomics. Both ends are "
    "in this process, or one is a --server and the other one has --connect. The figures are a table "
    "on standard output, and files of JSON, CSV, HTML or SVG as options say.\n"};
inline constexpr Command kNvmf{"nvmf",
                               "Export files, block devices and memory over NVMe-oF (NVMe/RDMA).\n"
                               "What, where and to whom is in the tables [nvmf] of --config. It serves "
                               "Linux's nvme-rdma host and others "
                               "until SIGTERM.\n"};
inline constexpr Command kMem{
    "mem",
    "Export memory by name, and read and write what is exported.\n"
    "list, get and put are clients of a memory server, which serve is. Data go to and come from a file, "
    "standard output or standard input.\n"};
inline constexpr Command kServe{
    "serve",
    "Share devices among the programs of this host.\n"
    "All of them have one address, and reach each other by it. Without --config, --interface or --port there "
    "is one device, uroce0, that leads nowhere outside.\n"};
inline constexpr Command kStatus{
    "status",
    "Show the programs that share this host's devices.\n"
    "The service is asked for its devices, its programs, their queue pairs and memory, and the frames that "
    "went through it.\n"};
inline constexpr Command kStat{
    "stat",
    "Show what processes count, while they run.\n"
    "Counters, latencies, links, and if asked for queue pairs and regions of every process with an open "
    "device, as a table or JSON on standard output.\n"};
inline constexpr Command kQp{"qp",
                             "Show queue pairs of all processes.\n"
                             "State, peer, messages, bytes, retries, window and congestion control.\n"};
inline constexpr Command kTop{
    "top",
    "Watch queue pairs and counters in a terminal.\n"
    "Rates, retries, NAKs and windows, each second anew. The key h lists the keys.\n"};
inline constexpr Command kExporter{
    "exporter",
    "Serve what processes count to Prometheus.\n"
    "Counters of all processes that it may see, read for each scrape, over HTTP at the path /metrics.\n"};
inline constexpr Command kFault{"fault",
                                "Break what programs of this host receive, on purpose.\n"
                                "Packets are lost, delayed, damaged or refused as ordered, while programs "
                                "run; or a queue pair, device or key fails at once.\n"};
inline constexpr Command kExplain{"explain", "Say what a completion status or errno means here"};
inline constexpr Command kReload{
    "reload",
    "Have the service read its configuration again.\n"
    "Programs stay attached. If anything is wrong with the file, one line says what, and all stays as it "
    "was.\n"};
inline constexpr Command kDecode{
    "decode",
    "Say what is in a capture of RoCEv2, and what is wrong with it.\n"
    "A line for each packet, then a summary of each connection, on standard output. ICRC, PSNs, order, "
    "lengths and waiting times are checked, of hardware, too.\n"};
inline constexpr Command kDump{
    "dump",
    "Capture frames of running programs in a file of pcapng.\n"
    "Frames are those that programs of the host's service receive and send, with queue pair and reason of a "
    "drop as comments.\n"};
inline constexpr Command kInfo{"info",
                               "Show devices, ports, limits, and what of the machine is used.\n"
                               "Devices are opened as a program with this configuration would open them.\n"};

}  // namespace uroce::launch
