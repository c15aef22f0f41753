#include "apps/perf/plan/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <random>

namespace uroce::perf {

std::string text_of(const MixPart& part) {
  return fmt::format("{} {}", name_of(part.operation), size_text(part.size));
}

Result<Spacing> parse_spacing(std::string_view text) {
  if (text == "even") return Spacing::kEven;
  if (text == "poisson") return Spacing::kPoisson;
  return Error{EINVAL, fmt::format("'{}' is no kind of arrivals (even, poisson)", text)};
}

std::vector<uint8_t> shuffled(const std::vector<MixPart>& mix, uint64_t seed) {
  std::vector<uint8_t> order;
  for (size_t part = 0; part < mix.size(); ++part)
    order.insert(order.end(), mix[part].weight, static_cast<uint8_t>(part));
  // std::shuffle differs between libraries; the order is to be the same everywhere.
  std::mt19937_64 random(seed);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  return order;
}

void LoadCounts::add(const LoadCounts& other) {
  parts.resize(std::max(parts.size(), other.parts.size()));
  for (size_t i = 0; i < other.parts.size(); ++i) {
    parts[i].messages += other.parts[i].messages;
    parts[i].latency.add(other.parts[i].latency);
  }
  for (size_t i = 0; i < slices.size(); ++i) {
    slices[i].messages += other.slices[i].messages;
    slices[i].bytes += other.slices[i].bytes;
    slices[i].latency.add(other.slices[i].latency);
  }
  intended += other.intended;
  seconds = std::max(seconds, other.seconds);
  sent += other.sent;
  received += other.received;
  bytes_verified += other.bytes_verified;
}

}  // namespace uroce::perf
