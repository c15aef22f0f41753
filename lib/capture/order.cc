#include "capture/order.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <utility>

#include "host/key_values.h"
#include "wire/opcode.h"

namespace uroce::capture {
namespace {

constexpr std::array<std::pair<std::string_view, Direction>, 3> kDirections{
    {{"both", Direction::kBoth}, {"in", Direction::kIn}, {"out", Direction::kOut}}};

char upper(char c) { return static_cast<char>(std::toupper(static_cast<unsigned char>(c))); }

host::Complaint store(std::string_view key, std::string_view value, Order& to) {
  if (host::is_scope_key(key)) return host::store_scope(key, value, to.scope);
  uint32_t number = 0;
  if (key == "opcode") {
    if (value.empty() || opcodes_named(value).none())
      return "no opcode is called so, as \"RC SEND Only\" or READ";
    to.opcode = value;
  } else if (key == "direction") {
    const auto* const found =
        std::ranges::find(kDirections, value, &std::pair<std::string_view, Direction>::first);
    if (found == kDirections.end()) return "must be in, out or both";
    to.direction = found->second;
  } else if (key == "snaplen") {
    if (!host::read_number(value, number) || (number != 0 && (number < kSnapMin || number > kSnapMax)))
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
  if (!text.empty()) {
    if (text.front() != ',') return Error{EINVAL, "no order to capture"};
    text.remove_prefix(1);
  }
  Order order;
  const Status read = host::store_pairs(
      text, [&](std::string_view key, std::string_view value) { return store(key, value, order); });
  if (!read) return read.error();
  return order;
}

std::string to_text(const Order& order) {
  std::string text(kOrderPrefix);
  if (const std::string scope = host::to_text(order.scope); !scope.empty()) text += "," + scope;
  if (!order.opcode.empty()) text += fmt::format(",opcode={}", order.opcode);
  for (const auto& [name, direction] : kDirections)
    if (direction == order.direction && direction != Direction::kBoth)
      text += fmt::format(",direction={}", name);
  return text + fmt::format(",snaplen={}", order.snap_bytes);
}

}  // namespace uroce::capture
