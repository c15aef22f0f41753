#include <algorithm>
#include <cerrno>

#include "apps/perf/plan/load.h"
#include "base/values/printable.h"
#include "engine/configuration/toml_document.h"
#include "engine/configuration/toml_values.h"

// A load as a TOML file: keys as the options of the command line, and [[mix]].
namespace uroce::perf {
namespace {

using configuration::Complaint;

Complaint store_real(const toml::node& value, double& to, double lowest, double highest) {
  const auto number = value.value<double>();
  if (!number || value.is_string() || value.is_boolean()) return "must be a number";
  if (!(*number >= lowest && *number <= highest))
    return fmt::format("must be from {} to {}", lowest, highest);
  to = *number;
  return std::nullopt;
}

/// A number, or text as on the command line.
template <typename T, typename Parse>
Complaint store_parsed(const toml::node& value, T& to, const Parse& parse) {
  const std::string text = value.is_string()    ? value.as_string()->get()
                           : value.is_integer() ? std::to_string(value.as_integer()->get())
                                                : "";
  const auto parsed = parse(text);
  if (!parsed) return parsed.error().message;
  to = *parsed;
  return std::nullopt;
}

Complaint store_operation(const toml::node& value, Operation& to) {
  const auto* text = value.as_string();
  const auto parsed = parse_operations(text != nullptr ? text->get() : "");
  if (!parsed) return parsed.error().message;
  if (parsed->size() != 1) return "must be one operation";
  to = parsed->front();
  return std::nullopt;
}

Complaint store_part(const toml::node& value, MixPart& to) {
  const toml::table* table = value.as_table();
  if (table == nullptr) return "must be tables ([[mix]])";
  for (const auto& [key, its] : *table) {
    Complaint complaint = "has no such key (operation, size, weight)";
    if (key == "operation") complaint = store_operation(its, to.operation);
    if (key == "size") complaint = store_parsed(its, to.size, parse_size);
    if (key == "weight") complaint = configuration::store_integer(its, to.weight, 1, kWeightsMax);
    if (complaint) return fmt::format("{}: {}", key.str(), *complaint);
  }
  if (is_atomic(to.operation)) to.size = 8;
  if (to.size == 0) return "size: is missing";
  return std::nullopt;
}

Complaint store_mix(const toml::node& value, std::vector<MixPart>& to) {
  uint64_t weights = 0;
  Complaint complaint = configuration::store_list(value, [&](const toml::node& element) -> Complaint {
    MixPart part;
    if (Complaint wrong = store_part(element, part)) return wrong;
    const auto same = [&](const MixPart& other) {
      return other.operation == part.operation && other.size == part.size;
    };
    if (std::ranges::any_of(to, same)) return fmt::format("{} is given twice", text_of(part));
    weights += part.weight;
    to.push_back(part);
    return std::nullopt;
  });
  if (complaint) return complaint;
  if (to.empty() || to.size() > kPartsMax) return fmt::format("must have 1 to {} parts", kPartsMax);
  if (weights > kWeightsMax) return fmt::format("weights must not be more than {} together", kWeightsMax);
  return std::nullopt;
}

Complaint store(std::string_view key, const toml::node& value, Load& to) {
  if (key == "mix") return store_mix(value, to.mix);
  if (key == "queue_pairs") return configuration::store_integer(value, to.queue_pairs, 1, kQueuePairsMax);
  if (key == "threads") return configuration::store_integer(value, to.threads, 1, kThreadsMax);
  if (key == "depth") return configuration::store_integer(value, to.depth, 1, 16384);
  if (key == "bidirectional") return configuration::store_flag(value, to.bidirectional);
  if (key == "rate") return store_parsed(value, to.rate, parse_rate);
  if (key == "arrivals") return store_parsed(value, to.spacing, parse_spacing);
  if (key == "warm_up") return store_real(value, to.warm_up_s, 0, 86400);
  if (key == "duration") return store_real(value, to.duration_s, 0.001, 86400);
  return "there is no such key (mix, queue_pairs, threads, depth, bidirectional, rate, arrivals, warm_up, "
         "duration)";
}

}  // namespace

Result<Load> read_profile(const std::string& path) {
  const Result<toml::table> parsed = configuration::read_document(path);
  if (!parsed) return parsed.error();
  Load load{.name = "mix", .mix = {}};
  for (const auto& [key, value] : *parsed)
    if (const Complaint complaint = store(key.str(), value, load))
      return Error{EINVAL, fmt::format("{}:{}: {}: {}", path, value.source().begin.line, printable(key.str()),
                                       printable(*complaint))};
  if (load.mix.empty()) return Error{EINVAL, fmt::format("{}: mix: is missing", path)};
  return load;
}

}  // namespace uroce::perf
