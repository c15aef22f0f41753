#include "apps/perf/report/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "apps/perf/report/confidence.h"
#include "base/process/regular_file.h"

namespace uroce::perf {
namespace {

using nlohmann::ordered_json;

/// Two at least, and not 0 all of them; else nothing.
std::vector<double> samples_of(const ordered_json& report, const std::string& key) {
  const ordered_json found = report.value("samples", ordered_json::object()).value(key, ordered_json());
  std::vector<double> samples;
  if (!found.is_array()) return samples;
  for (const ordered_json& sample : found)
    if (sample.is_number()) samples.push_back(sample.get<double>());
  const bool any = std::ranges::any_of(samples, [](double sample) { return sample > 0; });
  return samples.size() >= 2 && any ? samples : std::vector<double>();
}

double mean_of(const std::vector<double>& samples) {
  double sum = 0;
  for (const double sample : samples) sum += sample;
  return sum / static_cast<double>(samples.size());
}

/// More of what takes time is worse.
const char* result_of(const std::string& key, const Change& change) {
  if (!change.seen()) return "no difference seen";
  return (change.percent > 0) == key.ends_with("_us") ? "worse" : "better";
}

std::string differing_settings(const ordered_json& before, const ordered_json& after) {
  std::string out;
  const auto compare = [&](const ordered_json& a, const ordered_json& b, const char* key) {
    const ordered_json left = a.value(key, ordered_json());
    const ordered_json right = b.value(key, ordered_json());
    if (left != right) out += fmt::format("{}: {} and {}\n", key, left.dump(), right.dump());
  };
  for (const char* key :
       {"service", "device", "peer", "arrangement", "path_mtu", "depth", "slots", "receive_list", "load"})
    compare(before, after, key);
  for (const char* key : {"host", "kernel", "cpu", "usable_cpus"})
    compare(before.value("machine", ordered_json::object()), after.value("machine", ordered_json::object()),
            key);
  return out;
}

std::optional<ordered_json> read(const std::string& path) {
  constexpr size_t kReportBytesMax = 256 << 20;
  const auto text = read_regular_file(path, kReportBytesMax);
  if (!text) {
    fmt::print(stderr, "uroce perf: --compare {}\n", text.error().message);
    return std::nullopt;
  }
  const ordered_json json = ordered_json::parse(*text, nullptr, false);
  const bool report = json.is_object() && json.value("samples", ordered_json()).is_object() &&
                      json.value("machine", ordered_json()).is_object();
  if (report) return json;
  fmt::print(stderr, "uroce perf: --compare {}: no report of uroce perf --json, or one without samples\n",
             path);
  return std::nullopt;
}

}  // namespace

std::string comparison_of(const ordered_json& before, const ordered_json& after) {
  std::string text = differing_settings(before, after);
  if (!text.empty()) text += "\n";
  constexpr const char* kRow = "{:<36} {:>14} {:>14} {:>9} {:>19}  {}\n";
  std::string rows;
  const ordered_json sampled = before.value("samples", ordered_json::object());
  for (const auto& [key, value] : sampled.items()) {
    const std::vector<double> a = samples_of(before, key);
    const std::vector<double> b = samples_of(after, key);
    if (a.empty() || b.empty()) continue;
    const Change change = change_of(a, b);
    rows += fmt::format(kRow, key, fmt::format("{:.6g}", mean_of(a)), fmt::format("{:.6g}", mean_of(b)),
                        fmt::format("{:+.1f} %", change.percent),
                        fmt::format("{:+.1f} to {:+.1f} %", change.low, change.high), result_of(key, change));
  }
  if (rows.empty()) return {};
  return text +
         fmt::format(kRow, "mean of parts of the time", "before", "after", "change", "95 % confidence", "") +
         rows;
}

int compare(const std::string& before, const std::string& after) {
  const auto a = read(before);
  const auto b = a ? read(after) : std::nullopt;
  if (!b) return 1;
  const std::string text = comparison_of(*a, *b);
  if (text.empty()) {
    fmt::print(stderr, "uroce perf: --compare {} {}: they have no figure in common\n", before, after);
    return 1;
  }
  fmt::print("{}", text);
  return 0;
}

}  // namespace uroce::perf
