#include "apps/perf/command_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "apps/perf/ends/endpoint.h"
#include "client/channel.h"

namespace uroce::perf {
namespace {

/// Before the first measurement, rather than after the last: the folder of a file to be written.
Status check_folder(const char* option, const std::string& path) {
  if (path.empty()) return {};
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  if (access(folder.c_str(), W_OK) == 0) return {};
  return Error{errno, fmt::format("{} {}: {}", option, path, std::strerror(errno))};
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

}  // namespace

const char* const CommandLine::kExamples =
    "Examples:\n"
    "  uroce perf                                   both ends in this process\n"
    "  uroce perf --op write --size all --plot write.svg\n"
    "  uroce perf --server --config configs/memif-server.toml\n"
    "  uroce perf --connect 127.0.0.1 --config configs/memif-client.toml\n"
    "  uroce perf --service ud --size 64,1K\n"
    "  uroce perf --op write --size 64 --queue-pairs 64 --rate 1M --arrivals poisson\n"
    "  uroce perf --json a.json; uroce perf --json b.json --html b.html\n"
    "  uroce perf --compare a.json b.json\n"
    "  uroce perf --profile configs/profiles/mixed.toml --ramp\n"
    "A load is traffic of many queue pairs at once, in one direction or both, with a rate or as fast as it "
    "goes; its latency is from when a message was to be sent until it completed.\n"
    "Latencies without a load are round trips: ping and pong of SEND and WRITE, post to completion of a READ "
    "or atomic.\n"
    "On UC and UD every message brings its number as immediate data; what is lost is counted, not sent "
    "again.\n"
    "All data are verified before and after, outside the measured time; a mismatch is an error.\n";

CommandLine::CommandLine(CLI::App& command) {
  add_measuring(command);
  add_load(command);
  add_places(command);
}

void CommandLine::add_measuring(CLI::App& command) {
  constexpr const char* kGroup = "What is measured";
  command.add_option("--service", service_, "rc, uc or ud")
      ->capture_default_str()
      ->type_name("NAME")
      ->group(kGroup);
  command
      .add_option("--op", operations_,
                  "operations: write, read, send, and of 8 bytes: add (FETCH & ADD), swap (COMPARE & SWAP); "
                  "of uc write and send, of ud send; default: write,read,send as far as the service has them")
      ->type_name("LIST")
      ->group(kGroup);
  command
      .add_option(
          "--size", sizes_,
          "message sizes, 1 to 8M (of ud to 4K, and at most the path MTU), or all: the powers of two; "
          "default: 64,4K,64K,1M, of ud 64,1K")
      ->type_name("LIST")
      ->group(kGroup);
  command.add_option("--measure", measures_, "bandwidth, latency")
      ->capture_default_str()
      ->type_name("LIST")
      ->group(kGroup);
  iterations_option_ = command.add_option("--iterations", iterations_, "messages per measurement")
                           ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 40))
                           ->type_name("N")
                           ->group(kGroup);
  duration_option_ = command.add_option("--duration", options_.plan.duration_s, "seconds per measurement")
                         ->check(CLI::Range(0.001, 86400.0))
                         ->capture_default_str()
                         ->excludes(iterations_option_)
                         ->type_name("S")
                         ->group(kGroup);
  depth_option_ = command.add_option("--depth", options_.plan.depth, "messages outstanding of a queue pair")
                      ->check(CLI::Range(1u, 16384u))
                      ->capture_default_str()
                      ->type_name("N")
                      ->group(kGroup);
  slots_option_ =
      command
          .add_option("--slots", options_.plan.slots,
                      "of rc: places in memory that messages take in turn, of perftest 1 above 2 KiB; "
                      "default: one for each message outstanding")
          ->check(CLI::Range(1u, 16384u))
          ->type_name("N")
          ->group(kGroup);
  receive_list_option_ =
      command
          .add_option("--receive-list", options_.plan.receive_list,
                      "of rc: receives posted by one call, as perftest's --recv_post_list; default: as many "
                      "as a poll has found")
          ->check(CLI::Range(1u, kBatchMax))
          ->type_name("N")
          ->group(kGroup);
  command
      .add_option("--path-mtu", path_mtu_,
                  "payload bytes per packet; default: the most that the path carries")
      ->check(CLI::IsMember({256, 512, 1024, 2048, 4096}))
      ->type_name("BYTES")
      ->group(kGroup);
  command
      .add_option("--ack-timeout", options_.plan.ack_timeout,
                  "silence after which a packet is sent again: 4.096 us * 2^N, 0 for never")
      ->check(CLI::Range(0u, 31u))
      ->capture_default_str()
      ->type_name("N")
      ->group(kGroup);
}

void CommandLine::add_load(CLI::App& command) {
  constexpr const char* kGroup = "A load, with any of these: many queue pairs at once";
  command
      .add_option("--profile", profile_,
                  "a mix of operations and sizes, and any of the options below, as TOML")
      ->type_name("FILE")
      ->group(kGroup);
  queue_pairs_option_ =
      command.add_option("--queue-pairs", load_.queue_pairs, "in all; default: one for each thread and peer")
          ->check(CLI::Range(1u, kQueuePairsMax))
          ->type_name("N")
          ->group(kGroup);
  threads_option_ = command.add_option("--threads", load_.threads, "of each end; default: 1")
                        ->check(CLI::Range(1u, kThreadsMax))
                        ->type_name("N")
                        ->group(kGroup);
  command
      .add_option(
          "--rate", rate_,
          "messages a second in each direction, by a schedule: 5000, 250k, 1.5M; default: as many as go")
      ->type_name("RATE")
      ->group(kGroup);
  command.add_option("--arrivals", spacing_, "when they are to be sent: even or poisson; default: even")
      ->type_name("KIND")
      ->group(kGroup);
  command.add_flag("--bidirectional", load_.bidirectional, "both ends send")->group(kGroup);
  warm_up_option_ =
      command.add_option("--warm-up", load_.warm_up_s, "seconds before the measurement; default: 0.1")
          ->check(CLI::Range(0.0, 86400.0))
          ->type_name("S")
          ->group(kGroup);
  command
      .add_flag("--ramp", options_.ramp, "search the highest rate that is held without loss, up to --rate")
      ->group(kGroup);
}

void CommandLine::add_places(CLI::App& command) {
  constexpr const char* kGroup = "Where, and what becomes of it";
  command.add_option("--device", options_.device.name, "verbs device; default: the first")
      ->type_name("NAME")
      ->group(kGroup);
  auto* peer =
      command
          .add_option("--peer-device", options_.peer_device,
                      "the other end's, in one process; default: another than --device, if there is one")
          ->type_name("NAME")
          ->group(kGroup);
  command.add_option("--device-port", options_.device.port, "port of the device")
      ->check(CLI::Range(1, 255))
      ->type_name("N")
      ->group(kGroup);
  gid_index_option_ =
      command.add_option("--gid-index", gid_index_, "default: a RoCE v2 GID of an IPv4 address")
          ->check(CLI::Range(0u, 255u))
          ->type_name("N")
          ->group(kGroup);
  auto* server = command.add_flag("--server", options_.server, "wait for a client, serve it, end")
                     ->excludes(peer)
                     ->group(kGroup);
  options_.listen_port = client::Listener::kDefaultPort;
  command.add_option("--listen", options_.listen_port, "TCP port of the server; 0: any free one")
      ->capture_default_str()
      ->needs(server)
      ->type_name("PORT")
      ->group(kGroup);
  command
      .add_option("--connect", servers_, "be the client of that server; a load may have several, with commas")
      ->excludes(server)
      ->excludes(peer)
      ->type_name("HOST[:PORT]")
      ->group(kGroup);
  command.add_option("--json", options_.json_path, "write the figures there")
      ->type_name("FILE")
      ->group(kGroup);
  command.add_option("--csv", options_.csv_path, "write them there, a line for each measurement")
      ->type_name("FILE")
      ->group(kGroup);
  command
      .add_option("--html", options_.html_path, "write a page with plots, histograms and the machine there")
      ->type_name("FILE")
      ->group(kGroup);
  command
      .add_option("--compare", options_.compared,
                  "instead of measuring: two files of --json, the second beside the first")
      ->expected(2)
      ->type_name("A.json B.json")
      ->group(kGroup);
  command.add_option("--plot", options_.plot_path, "draw them there")->type_name("FILE.svg")->group(kGroup);
  command.add_flag("--quiet", options_.quiet, "no progress bar")->group(kGroup);
}

/// Puts into a load what the command line says of it.
Status CommandLine::apply_to(Load& load) const {
  if (queue_pairs_option_->count() != 0) load.queue_pairs = load_.queue_pairs;
  if (threads_option_->count() != 0) load.threads = load_.threads;
  if (warm_up_option_->count() != 0) load.warm_up_s = load_.warm_up_s;
  if (duration_option_->count() != 0 || profile_.empty()) load.duration_s = options_.plan.duration_s;
  if (depth_option_->count() != 0 || profile_.empty()) load.depth = options_.plan.depth;
  if (load_.bidirectional) load.bidirectional = true;
  if (!rate_.empty()) {
    const auto rate = parse_rate(rate_);
    if (!rate) return Error{EINVAL, "--rate: " + rate.error().message};
    load.rate = *rate;
  }
  if (!spacing_.empty()) {
    const auto spacing = parse_spacing(spacing_);
    if (!spacing) return Error{EINVAL, "--arrivals: " + spacing.error().message};
    load.spacing = *spacing;
  }
  if (load.spacing == Spacing::kPoisson && load.rate == 0 && !options_.ramp)
    return Error{EINVAL, "--arrivals poisson: wants --rate"};
  const auto ends = static_cast<uint32_t>(load.threads * std::max<size_t>(1, split(servers_, ',').size()));
  if (load.queue_pairs == 1) load.queue_pairs = ends;
  return {};
}

/// The loads that are asked for: of a profile one, else one for each operation and size.
Status CommandLine::choose_loads(Options& options) const {
  const bool wanted = !profile_.empty() || queue_pairs_option_->count() != 0 ||
                      threads_option_->count() != 0 || !rate_.empty() || !spacing_.empty() ||
                      load_.bidirectional || warm_up_option_->count() != 0 || options_.ramp;
  if (!wanted) return {};
  if (iterations_option_->count() != 0) return Error{EINVAL, "--iterations: a load has a --duration"};
  if (slots_option_->count() != 0)
    return Error{EINVAL, "--slots: in a load each message has a place of its own"};
  if (receive_list_option_->count() != 0)
    return Error{EINVAL, "--receive-list: a load posts its receives by 16"};
  Plan& plan = options.plan;
  if (!profile_.empty()) {
    const auto profile = read_profile(profile_);
    if (!profile) return Error{EINVAL, "--profile: " + profile.error().message};
    if (!operations_.empty() || !sizes_.empty())
      return Error{EINVAL, "--profile: operations and sizes are in the file"};
    options.loads = {*profile};
  } else {
    for (const Operation operation : plan.operations)
      for (const uint64_t size : is_atomic(operation) ? std::vector<uint64_t>{8} : plan.sizes)
        options.loads.push_back(
            {.name = fmt::format("{}.{}", name_of(operation), size), .mix = {{operation, size}}});
  }
  plan.sizes.clear();
  for (Load& load : options.loads) {
    if (const Status applied = apply_to(load); !applied) return applied;
    std::vector<Operation> operations;
    for (const MixPart& part : load.mix) {
      operations.push_back(part.operation);
      plan.sizes.push_back(part.size);
    }
    if (const Status there = check_operations(plan.service, operations); !there)
      return Error{there.error().code, "--profile: " + there.error().message};
  }
  return {};
}

Result<Options> CommandLine::options() const {
  for (const auto& [option, path] : {std::pair{"--json", &options_.json_path},
                                     {"--csv", &options_.csv_path},
                                     {"--html", &options_.html_path},
                                     {"--plot", &options_.plot_path}})
    if (const Status there = check_folder(option, *path); !there) return there.error();
  Options options = options_;
  const auto named = [](const char* option, const Error& error) {
    return Error{error.code, fmt::format("{}: {}", option, error.message)};
  };
  const auto service = parse_service(service_);
  if (!service) return named("--service", service.error());
  const bool datagrams = *service == Service::kUd;
  const char* const all = datagrams ? "send" : *service == Service::kUc ? "write,send" : "write,read,send";
  auto operations = parse_operations(operations_.empty() ? all : operations_);
  if (!operations) return named("--op", operations.error());
  if (const Status there = check_operations(*service, *operations); !there)
    return named("--op", there.error());
  auto sizes = parse_sizes(!sizes_.empty() ? sizes_ : datagrams ? "64,1K" : "64,4K,64K,1M");
  if (!sizes) return named("--size", sizes.error());
  if (datagrams && sizes_ == "all") std::erase_if(*sizes, [](uint64_t size) { return size > kDatagramMax; });
  if (datagrams && sizes->back() > kDatagramMax) {
    return named("--size", {EINVAL, fmt::format("{}: a message of UD is one packet, at most {}",
                                                size_text(sizes->back()), size_text(kDatagramMax))});
  }
  options.plan.service = *service;
  auto measures = parse_measures(measures_);
  if (!measures) return named("--measure", measures.error());
  options.plan.operations = std::move(*operations);
  options.plan.sizes = std::move(*sizes);
  options.plan.measures = std::move(*measures);
  if (iterations_ != 0) options.plan.iterations = iterations_;
  if (options.plan.slots != 0 && !is_reliable(*service))
    return Error{EINVAL, "--slots: only rc: what may be lost is told by its place"};
  if (options.plan.receive_list != 0 && !is_reliable(*service))
    return Error{EINVAL, "--receive-list: only rc: what may be lost is received in the order of the posts"};
  if (path_mtu_ != 0) options.plan.path_mtu = path_mtu_;
  if (gid_index_option_->count() != 0) options.device.gid_index = gid_index_;
  if (!servers_.empty()) options.connect = split(servers_, ',');
  if (const Status loads = choose_loads(options); !loads) return loads.error();
  return options;
}

}  // namespace uroce::perf
