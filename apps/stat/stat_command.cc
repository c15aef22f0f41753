#include "apps/stat/stat_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string_view>
#include <thread>

#include "apps/launch/command_line.h"
#include "apps/stat/report_json.h"
#include "apps/stat/row_texts.h"
#include "base/values/printable.h"

namespace uroce::statistics {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  uroce stat\n"
    "  uroce stat --watch 2 --device uroce0\n"
    "  uroce stat --json | jq '.processes[].devices[].counters.drop_icrc'\n"
    "Counters are read from memory of the processes, which notice nothing. A process is seen by its own "
    "user\n"
    "and by the superuser.\n";

int fail(const char* command, const std::string& what) {
  fmt::print(stderr, "uroce {}: {}\n", command, printable(what));
  return 1;
}

/// Decimal, or hexadecimal with 0x.
std::optional<uint32_t> number_in(std::string_view text) {
  const bool hexadecimal = text.starts_with("0x");
  if (hexadecimal) text.remove_prefix(2);
  uint32_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number, hexadecimal ? 16 : 10);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

/// False: there is nothing to show, which was said, too.
bool complain(const char* command, const Reading& reading, const Selection& selection) {
  for (const std::string& complaint : reading.complaints) fail(command, complaint);
  if (!reading.processes.empty()) return true;
  if (reading.complaints.empty()) fail(command, why_nothing(selection));
  return false;
}

void add_selection(CLI::App& command, Selection& selection) {
  command.add_option("--pid", selection.pid, "Only of this process")
      ->type_name("PID")
      ->check(CLI::PositiveNumber);
  command.add_option("--device", selection.device, "Only of devices of this name")->type_name("NAME");
}

}  // namespace

StatCommand::StatCommand(CLI::App& command) {
  command.footer(kExamples);
  add_selection(command, selection_);
  command.add_flag("--all", options_.zeros, "Counters that are zero, too");
  command.add_flag("--qps", options_.queue_pairs, "A line for each queue pair, too");
  command.add_flag("--regions", selection_.regions, "A line for each memory region and window, too");
  command.add_flag("--json", json_, "As JSON, with each poller's counters, all queue pairs and all regions");
  watch_ =
      command
          .add_option("--watch", every_s_,
                      "Again and again, each so many seconds (1), with what happened per second; as JSON a "
                      "line each time")
          ->type_name("SECONDS")
          ->expected(0, 1)
          ->check(CLI::Range(0.1, 3600.0));
}

int StatCommand::show(const Reading& reading, const Reading* earlier) const {
  if (!complain("stat", reading, selection_)) return 1;
  if (json_) {
    fmt::print("{}\n", to_json(reading).dump(watch_->count() != 0 ? -1 : 1, ' ', true,
                                             nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{}", to_table(reading, earlier, options_));
  }
  // A reader that went away, or a full disk.
  return std::fflush(stdout) == 0 ? 0 : fail("stat", "standard output cannot be written");
}

int StatCommand::execute() {
  options_.regions = selection_.regions;
  selection_.regions |= json_;
  if (watch_->count() != 0) return watch();
  const Reading reading = read_statistics(selection_);
  return show(reading, nullptr);
}

int StatCommand::watch() {
  const bool clears = !json_ && isatty(STDOUT_FILENO) == 1;
  std::optional<Reading> earlier;
  while (true) {
    Reading reading = read_statistics(selection_);
    if (clears) fmt::print("\033[H\033[2J");
    if (const int status = show(reading, earlier ? &*earlier : nullptr); status != 0) return status;
    earlier = std::move(reading);
    std::this_thread::sleep_for(std::chrono::duration<double>(every_s_));
  }
}

QueuePairCommand::QueuePairCommand(CLI::App& command)
    : show_(*command.add_subcommand("show", "All that is known of a queue pair")),
      list_(*command.add_subcommand("list", "A line for each queue pair")) {
  command.require_subcommand(1);
  show_.add_option("NUMBER", number_, "Number of the queue pair, decimal or 0x...")->required();
  for (CLI::App* part : {&show_, &list_}) {
    add_selection(*part, selection_);
    part->add_flag("--json", json_, "As JSON");
  }
}

int QueuePairCommand::execute() {
  if (show_.parsed()) {
    const auto number = number_in(number_);
    if (!number || *number == 0 || *number > 0xFFFFFF) {
      fmt::print(stderr, "uroce qp show: {}: the number of a queue pair is 1 to 0xffffff\n", number_);
      return launch::kUsage;
    }
    selection_.queue_pair = *number;
  }
  const Reading reading = read_statistics(selection_);
  if (!complain("qp", reading, selection_)) return 1;
  nlohmann::json all = nlohmann::json::array();
  std::string text;
  for (const Reading::Process& process : reading.processes) {
    for (const host::QueuePairRow& row : process.queue_pairs.rows) {
      if (selection_.queue_pair != 0 && row.number != selection_.queue_pair) continue;
      all.push_back(to_json(row, process));
      all.back()["pid"] = process.pid;
      if (show_.parsed()) text += to_table(row, process);
    }
    if (list_.parsed()) text += queue_pair_table(process);
  }
  if (show_.parsed() && all.empty())
    return fail("qp show", fmt::format("there is no queue pair {}", number_));
  fmt::print("{}", json_ ? all.dump(1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n" : text);
  return 0;
}

}  // namespace uroce::statistics
