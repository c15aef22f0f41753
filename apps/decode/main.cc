// `uroce decode`: what is in a capture of RoCEv2, and what is wrong with it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "apps/decode/decoder.h"
#include "apps/decode/report.h"
#include "apps/launch/command_line.h"
#include "apps/launch/commands.h"

namespace {

namespace decode = uroce::decode;
namespace launch = uroce::launch;

constexpr int kFindings = 1;
constexpr int kUnreadable = 2;

constexpr const char* kExamples =
    "Examples:\n"
    "  uroce decode --summary capture.pcapng\n"
    "  tcpdump -i eth1 -w - udp port 4791 | uroce decode -\n"
    "  uroce decode --json capture.pcap | jq 'select(.findings != [])'\n"
    "Exit status: 0 nothing is wrong, 1 something is, 2 a file cannot be read to its end.\n";

struct Options {
  std::vector<std::string> files;
  bool summary = false;
  bool json = false;
  bool rules = false;
  int threads = 0;
};

int show_rules() {
  for (size_t i = 0; i < decode::kRuleCount; ++i) {
    const auto rule = static_cast<decode::Rule>(i);
    fmt::print("{:<22} {}\n", decode::name_of(rule), decode::text_of(rule));
  }
  return 0;
}

uroce::HashKey random_key() {
  std::random_device device;
  const auto word = [&] { return uint64_t{device()} << 32 | device(); };
  return {word(), word()};
}

int complain(const std::string& what) {
  fmt::print(stderr, "uroce decode: {}\n", what);
  return kUnreadable;
}

int decode_file(const std::string& path, const Options& options, decode::Report& report) {
  auto file = decode::CaptureFile::open(path);
  if (!file) return complain(file.error().message);
  decode::Connections connections(random_key());
  decode::DecodeOptions how{.lines = options.summary ? decode::Lines::kNo : decode::Lines::kYes,
                            .threads = options.threads,
                            .on_frame = [&](const decode::Inspected& packet, const std::string& note) {
                              return report.frame(packet, note);
                            }};
  const decode::Totals totals = decode::decode(*file, how, connections);
  if (!report.summary(path, totals, connections, file->trouble()))
    return complain(fmt::format("standard output: {}", std::strerror(errno)));
  if (!file->trouble().empty())
    return complain(fmt::format("{}: {} (after {} frames)", path, file->trouble(), file->frames_read()));
  return totals.findings() == 0 ? 0 : kFindings;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(launch::kDecode.help, "uroce decode");
  Options options;
  app.add_option("FILE", options.files, "Captures, pcap or pcapng; - is standard input");
  app.add_flag("--summary", options.summary,
               "No line for each packet: what is wrong, and counts of each connection");
  app.add_flag("--json", options.json, "An object in each line, the last of a file with its counts");
  app.add_flag("--rules", options.rules, "Show what is looked for");
  app.add_option("--threads", options.threads, "Threads at most; default: as many as CPUs")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  app.footer(kExamples);
  if (const auto done = launch::parse(app, argc, argv)) return *done;
  if (options.rules) return show_rules();
  if (options.files.empty()) return launch::complain(app, "no capture: uroce decode FILE...");
  decode::Report report(options.json ? decode::Form::kJson : decode::Form::kText,
                        options.summary ? decode::Lines::kNo : decode::Lines::kYes);
  int status = 0;
  for (const std::string& file : options.files) status = std::max(status, decode_file(file, options, report));
  return status;
}
