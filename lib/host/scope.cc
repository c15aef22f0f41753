#include "host/scope.h"

#include <fmt/format.h>

namespace uroce::host {
namespace {

constexpr size_t kNameMax = 63;  // of a device

}  // namespace

bool is_scope_key(std::string_view key) { return key == "device" || key == "qp" || key == "client"; }

Complaint store_scope(std::string_view key, std::string_view value, Scope& to) {
  if (key == "device") {
    if (value.empty() || value.size() > kNameMax) return "must be the name of a device";
    to.device = value;
    return std::nullopt;
  }
  uint32_t number = 0;
  const bool valid = read_number(value, number) && number != 0;
  if (key == "client") {
    if (!valid) return "must be the number of a process";
    to.client = number;
    return std::nullopt;
  }
  if (!valid || number > QpNumber::kMask) return "must be the number of a queue pair";
  to.queue_pair = QpNumber{number};
  return std::nullopt;
}

std::string to_text(const Scope& scope) {
  std::string text;
  const auto add = [&](std::string_view key, const auto& value) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", key, value);
  };
  if (!scope.device.empty()) add("device", scope.device);
  if (scope.queue_pair) add("qp", scope.queue_pair->value);
  if (scope.client) add("client", *scope.client);
  return text;
}

}  // namespace uroce::host
