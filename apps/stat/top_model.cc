#include "apps/stat/top_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <sstream>
#include <string_view>

#include "apps/stat/report_table.h"
#include "apps/stat/row_texts.h"

namespace uroce::statistics {
namespace {

constexpr std::string_view kHelpText =
    "q         leave\n"
    "s, S      sort by the next column, the one before\n"
    "r         other direction\n"
    "/         show what contains a text (program, process, device, queue pair, peer); Escape ends it\n"
    "up, down  select; also j and k, page up and down, g for the top\n"
    "Enter     open the selected queue pair; Escape goes back\n"
    "c         counters of all processes, with what happens per second\n"
    "p         pause\n"
    "+, -      look less often, more often\n";

constexpr double kIntervalLeast = 0.25;
constexpr double kIntervalMost = 16;

double growth(uint64_t now, uint64_t before, double seconds) {
  return now < before || seconds <= 0 ? 0 : static_cast<double>(now - before) / seconds;
}

}  // namespace

/// By which rows can be sorted; each is shown.
struct TopModel::Column {
  const char* name;
  int width;
  double (*value)(const Row& row);
};

const std::vector<TopModel::Column>& TopModel::columns() {
  static const std::vector<Column> kColumns{
      {"BYTES/S", 9, [](const Row& row) { return row.bytes_s; }},
      {"MSG/S", 8, [](const Row& row) { return row.messages_s; }},
      {"RETRIES/S", 9, [](const Row& row) { return row.retries_s; }},
      {"RETRIES", 8, [](const Row& row) { return static_cast<double>(row.row.retransmitted); }},
      {"NAKS", 6,
       [](const Row& row) { return static_cast<double>(row.row.naks_received + row.row.rnr_naks_received); }},
      {"WINDOW", 6, [](const Row& row) { return static_cast<double>(row.row.window); }},
      {"UNANS", 6, [](const Row& row) { return static_cast<double>(row.row.unanswered); }},
      {"RTT us", 8, [](const Row& row) { return static_cast<double>(row.row.round_trip_ns) / 1000; }},
      {"MBIT/S", 8, [](const Row& row) { return row.row.mbps; }},
  };
  return kColumns;
}

void TopModel::update(Reading reading) {
  if (paused_) return;
  earlier_ = std::exchange(reading_, std::move(reading));
  shown_ = rows();
}

std::vector<TopModel::Row> TopModel::rows() const {
  std::map<Name, const host::QueuePairRow*> before;
  for (const Reading::Process& process : earlier_->processes)
    for (const host::QueuePairRow& row : process.queue_pairs.rows) before[{process.pid, row.number}] = &row;
  const double seconds = static_cast<double>(reading_.taken_ns - earlier_->taken_ns) / 1e9;
  std::vector<Row> all;
  for (size_t i = 0; i < reading_.processes.size(); ++i) {
    const Reading::Process& process = reading_.processes[i];
    for (const host::QueuePairRow& now : process.queue_pairs.rows) {
      const auto found = before.find({process.pid, now.number});
      const host::QueuePairRow& was = found != before.end() ? *found->second : now;
      all.push_back({.process = i,
                     .row = now,
                     .messages_s = growth(now.sent_messages + now.received_messages,
                                          was.sent_messages + was.received_messages, seconds),
                     .bytes_s = growth(now.sent_bytes + now.received_bytes,
                                       was.sent_bytes + was.received_bytes, seconds),
                     .retries_s = growth(now.retransmitted, was.retransmitted, seconds)});
    }
  }
  return all;
}

bool TopModel::matches(const Row& row) const {
  const Reading::Process& process = reading_.processes[row.process];
  return filter_.empty() || fmt::format("{} {} {} {:#x} {} {:#x}", process.pid, process.program,
                                        process.devices[row.row.device].name, row.row.number,
                                        peer_of(row.row), row.row.destination)
                                    .find(filter_) != std::string::npos;
}

std::string TopModel::line_of(const Row& row) const {
  const Reading::Process& process = reading_.processes[row.process];
  std::string line = fmt::format("{:>8} {:<15.15} {:>#9x} {:<4.4} {:<5}", process.pid, process.program,
                                 row.row.number, type_of(row.row), state_of(row.row));
  for (const Column& column : columns())
    line += fmt::format(" {:>{}}", short_number(column.value(row)), column.width);
  const std::string peer = peer_of(row.row);
  return line + fmt::format(" {:<5} {}", control_of(row.row),
                            peer.empty() ? peer : fmt::format("{} {:#x}", peer, row.row.destination));
}

std::string TopModel::summary(size_t rows) const {
  double bytes_s = 0;
  double messages_s = 0;
  for (const Row& row : shown_) {
    bytes_s += row.bytes_s;
    messages_s += row.messages_s;
  }
  size_t silent = 0;
  for (const Reading::Process& process : reading_.processes) silent += process.queue_pairs.current ? 0 : 1;
  std::string text =
      fmt::format("uroce top: {} processes, {} of {} queue pairs, {}B/s, {} messages/s, every {} s",
                  reading_.processes.size(), rows, shown_.size(), short_number(bytes_s),
                  short_number(messages_s), interval_s_);
  if (silent > 0) text += fmt::format(", {} do not answer", silent);
  if (!reading_.complaints.empty()) text += fmt::format(", {} cannot be read", reading_.complaints.size());
  if (paused_) text += ", paused";
  return text;
}

void TopModel::show_rows(Screen& screen, size_t height) {
  std::vector<const Row*> sorted;
  for (const Row& row : shown_)
    if (matches(row)) sorted.push_back(&row);
  const auto value = columns()[sort_].value;
  std::ranges::stable_sort(sorted, [&](const Row* a, const Row* b) {
    return ascending_ ? value(*a) < value(*b) : value(*a) > value(*b);
  });
  screen.lines.push_back(summary(sorted.size()));
  screen.lines.push_back(types_filter_ || !filter_.empty()
                             ? fmt::format("filter: {}{}", filter_, types_filter_ ? "_" : "")
                             : "q leave, s sort, r reverse, / filter, Enter open, c counters, h help");
  std::string heading =
      fmt::format("{:>8} {:<15} {:>9} {:<4} {:<5}", "PID", "PROGRAM", "QP", "TYPE", "STATE");
  for (size_t i = 0; i < columns().size(); ++i)
    heading += fmt::format(" {:>{}}",
                           fmt::format("{}{}", columns()[i].name, i == sort_ ? (ascending_ ? "^" : "v") : ""),
                           columns()[i].width);
  screen.heading = screen.lines.size();
  screen.lines.push_back(heading + " CC    PEER");
  const auto name_of = [&](const Row& row) {
    return Name{reading_.processes[row.process].pid, row.row.number};
  };
  auto selected = std::ranges::find_if(sorted, [&](const Row* row) { return name_of(*row) == selected_; });
  if (selected == sorted.end()) selected = sorted.begin();
  selected_ = selected != sorted.end() ? std::optional(name_of(**selected)) : std::nullopt;
  const auto index = static_cast<size_t>(selected - sorted.begin());
  page_ = std::max<size_t>(height - std::min(height - 1, screen.lines.size()), 1);
  first_ = std::clamp(first_, index >= page_ ? index - page_ + 1 : 0, index);
  for (size_t i = first_; i < std::min(sorted.size(), first_ + page_); ++i) {
    if (i == index) screen.selected = screen.lines.size();
    screen.lines.push_back(line_of(*sorted[i]));
  }
  if (sorted.empty()) screen.lines.emplace_back("  no queue pair");
  // For keys that come before the next look.
  std::vector<Row> in_order;
  for (const Row* row : sorted) in_order.push_back(*row);
  for (const Row& row : shown_)
    if (!matches(row)) in_order.push_back(row);
  shown_ = std::move(in_order);
}

namespace {

void add_lines(const std::string& text, std::vector<std::string>& lines) {
  std::istringstream all(text);
  for (std::string line; std::getline(all, line);) lines.push_back(line);
}

}  // namespace

void TopModel::show_opened(Screen& screen) const {
  for (const Row& row : shown_) {
    const Reading::Process& process = reading_.processes[row.process];
    if (Name{process.pid, row.row.number} != selected_) continue;
    add_lines(to_table(row.row, process), screen.lines);
    screen.lines.push_back(fmt::format("  {}B/s, {} messages/s, {} retries/s", short_number(row.bytes_s),
                                       short_number(row.messages_s), short_number(row.retries_s)));
    return;
  }
  screen.lines.emplace_back("the queue pair is gone; Escape goes back");
}

void TopModel::show_counters(Screen& screen) const {
  add_lines(to_table(reading_, earlier_ ? &*earlier_ : nullptr, {}), screen.lines);
}

TopModel::Screen TopModel::screen(size_t width, size_t height) {
  Screen screen;
  switch (view_) {
    case View::kQueuePairs:
      show_rows(screen, height);
      break;
    case View::kOpened:
      show_opened(screen);
      break;
    case View::kCounters:
      show_counters(screen);
      break;
    case View::kHelp:
      add_lines(std::string(kHelpText), screen.lines);
      break;
  }
  if (screen.lines.size() > height) screen.lines.resize(height);
  for (std::string& line : screen.lines)
    if (line.size() > width) line.resize(width);
  return screen;
}

void TopModel::select(std::ptrdiff_t by) {
  std::vector<Name> names;
  for (const Row& row : shown_)
    if (matches(row)) names.emplace_back(reading_.processes[row.process].pid, row.row.number);
  if (names.empty()) return;
  const auto found = selected_ ? std::ranges::find(names, *selected_) : names.begin();
  const std::ptrdiff_t at = found == names.end() ? 0 : found - names.begin();
  selected_ = names[static_cast<size_t>(
      std::clamp<std::ptrdiff_t>(at + by, 0, static_cast<std::ptrdiff_t>(names.size()) - 1))];
}

void TopModel::press(TopKey key) {
  const auto page = static_cast<std::ptrdiff_t>(page_);
  switch (key) {
    case TopKey::kUp:
      return select(-1);
    case TopKey::kDown:
      return select(1);
    case TopKey::kPageUp:
      return select(-page);
    case TopKey::kPageDown:
      return select(page);
    case TopKey::kHome:
      return select(-static_cast<std::ptrdiff_t>(shown_.size()));
    case TopKey::kEnter:
      if (types_filter_) {
        types_filter_ = false;
      } else if (selected_ && view_ == View::kQueuePairs) {
        view_ = View::kOpened;
      }
      return;
    case TopKey::kEscape:
      if (view_ == View::kQueuePairs) filter_.clear();
      types_filter_ = false;
      view_ = View::kQueuePairs;
      return;
    case TopKey::kBackspace:
      if (types_filter_ && !filter_.empty()) filter_.pop_back();
      return;
  }
}

bool TopModel::press(char key) {
  if (types_filter_) {
    constexpr size_t kFilterMax = 40;
    if (filter_.size() < kFilterMax) filter_ += key;
    return true;
  }
  const size_t count = columns().size();
  switch (key) {
    case 'q':
      return false;
    case 's':
      sort_ = (sort_ + 1) % count;
      break;
    case 'S':
      sort_ = (sort_ + count - 1) % count;
      break;
    case 'r':
      ascending_ = !ascending_;
      break;
    case '/':
      view_ = View::kQueuePairs;
      types_filter_ = true;
      filter_.clear();
      break;
    case 'j':
      select(1);
      break;
    case 'k':
      select(-1);
      break;
    case 'g':
      press(TopKey::kHome);
      break;
    case 'c':
      view_ = view_ == View::kCounters ? View::kQueuePairs : View::kCounters;
      break;
    case 'h':
    case '?':
      view_ = view_ == View::kHelp ? View::kQueuePairs : View::kHelp;
      break;
    case 'p':
      paused_ = !paused_;
      break;
    case '+':
      interval_s_ = std::min(interval_s_ * 2, kIntervalMost);
      break;
    case '-':
      interval_s_ = std::max(interval_s_ / 2, kIntervalLeast);
      break;
    default:
      break;
  }
  return true;
}

}  // namespace uroce::statistics
