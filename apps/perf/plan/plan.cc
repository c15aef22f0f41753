#include "apps/perf/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

namespace uroce::perf {
namespace {

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

Error invalid(std::string message) { return {EINVAL, std::move(message)}; }

template <typename Value, size_t N>
Result<std::vector<Value>> parse_names(std::string_view text, std::string_view what,
                                       const std::array<Value, N>& all) {
  std::vector<Value> values;
  for (const std::string_view part : split(text)) {
    const auto found =
        std::find_if(all.begin(), all.end(), [&](Value value) { return name_of(value) == part; });
    if (found == all.end()) {
      std::string known;
      for (const Value value : all) known += fmt::format("{}{}", known.empty() ? "" : ", ", name_of(value));
      return invalid(fmt::format("'{}' is no {} ({})", part, what, known));
    }
    if (std::find(values.begin(), values.end(), *found) != values.end()) {
      return invalid(fmt::format("{} '{}' is given twice", what, part));
    }
    values.push_back(*found);
  }
  return values;
}

}  // namespace

std::string_view name_of(Operation operation) {
  switch (operation) {
    case Operation::kWrite:
      return "write";
    case Operation::kRead:
      return "read";
    case Operation::kSend:
      return "send";
    case Operation::kFetchAdd:
      return "add";
    case Operation::kCompareSwap:
      return "swap";
  }
  return "?";
}

std::string_view name_of(Measure measure) { return measure == Measure::kBandwidth ? "bandwidth" : "latency"; }

std::string_view name_of(Service service) {
  return service == Service::kRc ? "RC" : service == Service::kUc ? "UC" : "UD";
}

Result<Service> parse_service(std::string_view text) {
  if (text == "rc") return Service::kRc;
  if (text == "uc") return Service::kUc;
  if (text == "ud") return Service::kUd;
  return invalid(fmt::format("'{}' is no service (rc, uc, ud)", text));
}

Status check_operations(Service service, const std::vector<Operation>& operations) {
  for (const Operation operation : operations) {
    if (has_operation(service, operation)) continue;
    return invalid(fmt::format("{} has no '{}' (it has {})", name_of(service), name_of(operation),
                               service == Service::kUd ? "send" : "write and send"));
  }
  return {};
}

Result<std::vector<Operation>> parse_operations(std::string_view text) {
  return parse_names(text, "operation",
                     std::array{Operation::kWrite, Operation::kRead, Operation::kSend, Operation::kFetchAdd,
                                Operation::kCompareSwap});
}

Result<std::vector<Measure>> parse_measures(std::string_view text) {
  return parse_names(text, "measurement", std::array{Measure::kBandwidth, Measure::kLatency});
}

Result<uint64_t> parse_size(std::string_view text) {
  uint64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(rest, static_cast<size_t>(text.data() + text.size() - rest));
  unsigned shift = 0;
  if (unit == "K" || unit == "k" || unit == "KiB") shift = 10;
  if (unit == "M" || unit == "m" || unit == "MiB") shift = 20;
  if (error != std::errc{} || (shift == 0 && !unit.empty())) {
    return invalid(fmt::format("'{}' is no size (a number, or one with K or M behind it)", text));
  }
  if (number == 0 || number > kSizeMax >> shift) {
    return invalid(fmt::format("size {} is not between 1 B and 8 MiB", text));
  }
  return number << shift;
}

Result<double> parse_rate(std::string_view text) {
  double number = 0;
  const auto [rest, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  const std::string_view unit(rest, static_cast<size_t>(text.data() + text.size() - rest));
  const double factor = unit == "k" || unit == "K" ? 1e3 : unit == "M" ? 1e6 : 1;
  if (error != std::errc{} || (factor == 1 && !unit.empty()))
    return invalid(
        fmt::format("'{}' is no rate (messages a second: a number, or one with k or M behind it)", text));
  if (!(number * factor >= 1 && number * factor <= 1e10))
    return invalid(fmt::format("rate {} is not between 1 and 10000M", text));
  return number * factor;
}

Result<std::vector<uint64_t>> parse_sizes(std::string_view text) {
  std::vector<uint64_t> sizes;
  if (text == "all") {
    for (uint64_t size = 1; size <= kSizeMax; size *= 2) sizes.push_back(size);
    return sizes;
  }
  for (const std::string_view part : split(text)) {
    const Result<uint64_t> size = parse_size(part);
    if (!size) return size.error();
    sizes.push_back(*size);
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

std::string size_text(uint64_t bytes) {
  if (bytes >= 1u << 20 && bytes % (1u << 20) == 0) return fmt::format("{} MiB", bytes >> 20);
  if (bytes >= 1u << 10 && bytes % (1u << 10) == 0) return fmt::format("{} KiB", bytes >> 10);
  return fmt::format("{} B", bytes);
}

}  // namespace uroce::perf
