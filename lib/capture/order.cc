#include "capture/order.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <utility>

#include "wire/opcode.h"

namespace uroce::capture {
namespace {

using Complaint = std::optional<std::string>;

constexpr std::array<std::pair<std::string_view, Direction>, 3> kDirections{
    {{"both", Direction::kBoth}, {"in", Direction::kIn}, {"out", Direction::kOut}}};
constexpr size_t kNameMax = 63;

template <typename T>
bool read_number(std::string_view text, T& to) {
  const bool hexadecimal = text.starts_with("0x");
  if (hexadecimal) text.remove_prefix(2);
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, to, hexadecimal ? 16 : 10);
  return error == std::errc{} && stop == end;
}

char upper(char c) { return static_cast<char>(std::toupper(static_cast<unsigned char>(c))); }

Complaint store(std::string_view key, std::string_view value, Order& to) {
  uint32_t number = 0;
  if (key == "device") {
    if (value.empty() || value.size() > kNameMax) return "must be the name of a device";
    to.device = value;
  } else if (key == "qp") {
    if (!read_number(value, number) || number > QpNumber::kMask) return "must be a queue pair number";
    to.queue_pair = QpNumber{number};
  } else if (key == "client") {
    if (!read_number(value, number) || number == 0) return "must be the number of a process";
    to.client = number;
  } else if (key == "opcode") {
    if (value.empty() || opcodes_named(value).none())
      return "no opcode is called so, as \"RC SEND Only\" or READ";
    to.opcode = value;
  } else if (key == "direction") {
    const auto* const found =
        std::ranges::find(kDirections, value, &std::pair<std::string_view, Direction>::first);
    if (found == kDirections.end()) return "must be in, out or both";
    to.direction = found->second;
  } else if (key == "snaplen") {
    if (!read_number(value, number) || (number != 0 && (number < kSnapMin || number > kSnapMax)))
      return fmt::format("must be {} to {} bytes, or 0 for all", kSnapMin, kSnapMax);
    to.snap_bytes = number == 0 ? kSnapMax : number;
  } else {
    return "there is no such key";
  }
  return std::nullopt;
}

}  // namespace

std::bitset<256> opcodes_named(std::string_view part) {
  std::bitset<256> found;
  for (const wire::OpcodeRow& row : wire::kOpcodeRows) {
    const auto same = [](char one, char other) { return upper(one) == upper(other); };
    const auto at = std::ranges::search(row.name, part, same);
    found[row.opcode.value] = row.valid && !(at.empty() && !part.empty());
  }
  return found;
}

Result<Order> parse_order(std::string_view text) {
  if (!text.starts_with(kOrderPrefix)) return Error{EINVAL, "no order to capture"};
  text.remove_prefix(kOrderPrefix.size());
  Order order;
  while (!text.empty()) {
    if (text.front() != ',') return Error{EINVAL, "no order to capture"};
    text.remove_prefix(1);
    const std::string_view pair = text.substr(0, text.find(','));
    text.remove_prefix(pair.size());
    const size_t sign = pair.find('=');
    const std::string_view key = pair.substr(0, sign);
    if (sign == std::string_view::npos) return Error{EINVAL, fmt::format("{}: has no value", key)};
    if (const Complaint wrong = store(key, pair.substr(sign + 1), order))
      return Error{EINVAL, fmt::format("{}: {}", key, *wrong)};
  }
  return order;
}

std::string to_text(const Order& order) {
  std::string text(kOrderPrefix);
  if (!order.device.empty()) text += fmt::format(",device={}", order.device);
  if (order.queue_pair) text += fmt::format(",qp={}", order.queue_pair->value);
  if (order.client) text += fmt::format(",client={}", *order.client);
  if (!order.opcode.empty()) text += fmt::format(",opcode={}", order.opcode);
  for (const auto& [name, direction] : kDirections)
    if (direction == order.direction && direction != Direction::kBoth)
      text += fmt::format(",direction={}", name);
  return text + fmt::format(",snaplen={}", order.snap_bytes);
}

}  // namespace uroce::capture
