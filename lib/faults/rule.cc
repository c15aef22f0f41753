#include "faults/rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <utility>

namespace uroce::faults {
namespace {

using host::Complaint;

struct Unit {
  std::string_view name;
  int64_t factor;
};
constexpr std::array<Unit, 4> kTimes{{{"s", 1'000'000'000}, {"ms", 1'000'000}, {"us", 1'000}, {"ns", 1}}};
constexpr std::array<Unit, 4> kRates{
    {{"Gbit", 1'000'000'000}, {"Mbit", 1'000'000}, {"kbit", 1'000}, {"bit", 1}}};
constexpr std::array<std::pair<std::string_view, Refusal>, 4> kRefusals{
    {{"rnr", Refusal::kRnr},
     {"access", Refusal::kAccess},
     {"invalid", Refusal::kInvalid},
     {"operational", Refusal::kOperational}}};
constexpr int64_t kDelayMax = 10'000'000'000;  // ns
constexpr int64_t kScheduleMax = int64_t{86'400} * 1'000'000'000;
constexpr int64_t kRateMin = 1'000;
constexpr int64_t kRateMax = 1'000'000'000'000;

/// "100us": a number, maybe with a fraction, and one of the units.
template <size_t N>
std::optional<int64_t> read_quantity(std::string_view text, const std::array<Unit, N>& units) {
  double number = 0;
  const auto [stop, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc{} || number < 0) return std::nullopt;
  const std::string_view unit(stop, static_cast<size_t>(text.data() + text.size() - stop));
  const auto found = std::ranges::find(units, unit, &Unit::name);
  constexpr double kMost = 9e18;
  if (found == units.end() || number * static_cast<double>(found->factor) > kMost) return std::nullopt;
  return static_cast<int64_t>(number * static_cast<double>(found->factor) + 0.5);
}

Complaint store_chance(std::string_view text, uint32_t& to) {
  constexpr const char* kShape = "must be above 0% and at most 100%, as in 0.5%";
  double percent = 0;
  const bool has_sign = text.ends_with('%');
  if (!has_sign) return kShape;
  text.remove_suffix(1);
  const auto [stop, error] =
      std::from_chars(text.data(), text.data() + text.size(), percent, std::chars_format::fixed);
  const bool whole = error == std::errc{} && stop == text.data() + text.size();
  if (!whole || !(percent > 0) || percent > 100) return kShape;
  to = static_cast<uint32_t>(percent * (kPerMillion / 100) + 0.5);
  if (to == 0) return "must be 0.0001% at least";
  return std::nullopt;
}

Complaint store_time(std::string_view text, Duration& to, int64_t most) {
  const auto ns = read_quantity(text, kTimes);
  if (!ns || *ns == 0 || *ns > most)
    return fmt::format("must be a time up to {} s with its unit, as in 100us, 5ms, 2s", most / 1'000'000'000);
  to = {*ns};
  return std::nullopt;
}

Complaint store_rate(std::string_view text, uint64_t& to) {
  const auto rate = read_quantity(text, kRates);
  if (!rate || *rate < kRateMin || *rate > kRateMax) return "must be from 1kbit to 1000Gbit, as in 100Mbit";
  to = static_cast<uint64_t>(*rate);
  return std::nullopt;
}

Complaint store_nak(std::string_view text, Rule& to) {
  const size_t colon = std::min(text.find(':'), text.size());
  const auto kind =
      std::ranges::find(kRefusals, text.substr(0, colon), &decltype(kRefusals)::value_type::first);
  if (kind == kRefusals.end() || colon == text.size())
    return "must be rnr, access, invalid or operational with its chance, as in rnr:10%";
  to.refusal = kind->second;
  return store_chance(text.substr(colon + 1), to.nak);
}

struct Key {
  std::string_view name;
  Complaint (*store)(std::string_view text, Rule& to);
};
constexpr std::array<Key, 11> kKeys{{
    {"loss", [](std::string_view text, Rule& to) { return store_chance(text, to.loss); }},
    {"delay", [](std::string_view text, Rule& to) { return store_time(text, to.delay, kDelayMax); }},
    {"jitter", [](std::string_view text, Rule& to) { return store_time(text, to.jitter, kDelayMax); }},
    {"reorder", [](std::string_view text, Rule& to) { return store_chance(text, to.reorder); }},
    {"duplicate", [](std::string_view text, Rule& to) { return store_chance(text, to.duplicate); }},
    {"corrupt", [](std::string_view text, Rule& to) { return store_chance(text, to.corrupt); }},
    {"ecn", [](std::string_view text, Rule& to) { return store_chance(text, to.ecn); }},
    {"nak", store_nak},
    {"rate", [](std::string_view text, Rule& to) { return store_rate(text, to.rate); }},
    {"seed",
     [](std::string_view text, Rule& to) {
       return host::read_number(text, to.seed) ? std::nullopt : Complaint("must be a number");
     }},
    {"after", [](std::string_view text, Rule& to) { return store_time(text, to.after, kScheduleMax); }},
}};

Complaint store(std::string_view key, std::string_view value, Rule& to) {
  if (host::is_scope_key(key)) return host::store_scope(key, value, to.scope);
  if (key == "for") return store_time(value, to.lasts.emplace(), kScheduleMax);
  const auto found = std::ranges::find(kKeys, key, &Key::name);
  if (found != kKeys.end()) return found->store(value, to);
  std::string known = "device, qp, client, ";
  for (const Key& one : kKeys) known += fmt::format("{}, ", one.name);
  return "no fault has that key; there are " + known + "for";
}

/// What no key sees by itself.
Complaint check(const Rule& rule) {
  const bool does_something =
      rule.loss + rule.duplicate + rule.reorder + rule.corrupt + rule.ecn + rule.nak > 0 ||
      rule.delay.ns > 0 || rule.rate > 0;
  if (rule.jitter > rule.delay) return "jitter: must not be more than delay";
  if (!does_something)
    return "nothing to do: give loss, delay, reorder, duplicate, corrupt, ecn, nak or rate";
  return std::nullopt;
}

std::string chance_text(uint32_t chance) {
  return fmt::format("{}%", static_cast<double>(chance) / (kPerMillion / 100));
}

template <size_t N>
std::string quantity_text(int64_t value, const std::array<Unit, N>& units) {
  const auto unit = std::ranges::find_if(units, [&](const Unit& one) { return value % one.factor == 0; });
  return fmt::format("{}{}", value / unit->factor, unit->name);
}

}  // namespace

Result<Rule> parse_rule(std::string_view text) {
  if (text.size() > kRuleTextMax)
    return Error{EINVAL, fmt::format("must not be longer than {} characters", kRuleTextMax)};
  Rule rule;
  const Status read = host::store_pairs(
      text, [&](std::string_view key, std::string_view value) { return store(key, value, rule); });
  if (!read) return read.error();
  if (const Complaint complaint = check(rule)) return Error{EINVAL, *complaint};
  return rule;
}

std::string to_text(const Rule& rule) {
  std::string text = host::to_text(rule.scope);
  const auto add = [&](bool given, std::string_view key, const std::string& value) {
    if (given) text += fmt::format("{}{}={}", text.empty() ? "" : ",", key, value);
  };
  add(rule.loss > 0, "loss", chance_text(rule.loss));
  add(rule.delay.ns > 0, "delay", quantity_text(rule.delay.ns, kTimes));
  add(rule.jitter.ns > 0, "jitter", quantity_text(rule.jitter.ns, kTimes));
  add(rule.reorder > 0, "reorder", chance_text(rule.reorder));
  add(rule.duplicate > 0, "duplicate", chance_text(rule.duplicate));
  add(rule.corrupt > 0, "corrupt", chance_text(rule.corrupt));
  add(rule.ecn > 0, "ecn", chance_text(rule.ecn));
  const auto refusal = std::ranges::find(kRefusals, rule.refusal, &decltype(kRefusals)::value_type::second);
  add(rule.nak > 0, "nak", fmt::format("{}:{}", refusal->first, chance_text(rule.nak)));
  add(rule.rate > 0, "rate", quantity_text(static_cast<int64_t>(rule.rate), kRates));
  add(rule.seed != 1, "seed", std::to_string(rule.seed));
  add(rule.after.ns > 0, "after", quantity_text(rule.after.ns, kTimes));
  add(rule.lasts.has_value(), "for", quantity_text(rule.lasts.value_or(Duration{}).ns, kTimes));
  return text;
}

}  // namespace uroce::faults
