#include "apps/serve/client.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "apps/serve/asking.h"
#include "base/values/printable.h"

namespace uroce::serve {
namespace {

using host::MessageType;
using nlohmann::json;

/// Ports are opened and closed meanwhile, one after the other.
constexpr int kReloadMs = 120'000;

std::string in_units(uint64_t bytes) {
  constexpr double kStep = 1024;
  auto value = static_cast<double>(bytes);
  constexpr const char* kUnits = "KMGTP";
  if (value < kStep) return fmt::format("{}", bytes);
  const char* unit = kUnits;
  for (value /= kStep; value >= kStep && unit[1] != 0; ++unit) value /= kStep;
  return fmt::format("{:.1f}{}", value, *unit);
}

/// The service may be another user's, whatever it says.
std::string text_in(const json& value) { return printable(value.get<std::string>()); }

/// Frames of a program and for it that were dropped, by the service and by the program's own port.
uint64_t dropped_of(const json& program) {
  auto sum = program.at("port_dropped").get<uint64_t>();
  for (const auto& [reason, count] : program.at("drops").items()) sum += count.get<uint64_t>();
  return sum;
}

/// What the port of the service's device has dropped; empty: nothing.
std::string port_dropped_of(const json& device) {
  const json& counters = device.at("counters");
  const auto dropped = counters.value("port_dropped", uint64_t{0});
  return dropped == 0 ? ""
                      : fmt::format("  port_dropped {}: frames that the port had no room for\n", dropped);
}

std::string traffic_heading(std::string_view direction) {
  return fmt::format("{:>10} {:>8} {:>8} {:>8}", direction, "BYTES", "FRAMES/S", "BYTES/S");
}

/// "sent" or "received": frames and bytes in all, and of the last second.
std::string traffic_of(const json& program, const std::string& direction) {
  const auto value = [&](const std::string& key) { return program.at(key).get<uint64_t>(); };
  return fmt::format("{:>10} {:>8} {:>8} {:>8}", value("frames_" + direction),
                     in_units(value("bytes_" + direction)), value("frames_" + direction + "_per_s"),
                     in_units(value("bytes_" + direction + "_per_s")));
}

void print_device(const json& device) {
  std::string addresses;
  for (const json& address : device.at("addresses")) addresses.append(" ").append(text_in(address));
  fmt::print("{}: {}, link {}, MTU {}, MAC {},{}\n", text_in(device.at("name")), text_in(device.at("port")),
             device.at("up").get<bool>() ? "up" : "down", device.at("mtu").get<uint32_t>(),
             text_in(device.at("mac")), addresses.empty() ? " no address" : addresses);
  fmt::print("{}", port_dropped_of(device));
  // Its numbers and names are shown to their own user only.
  if (const auto others = device.at("other_programs").get<uint64_t>(); others > 0)
    fmt::print("  {} programs of other users\n", others);
  if (device.at("programs").empty()) return;
  fmt::print("  {:>8} {:>6} {:<16} {:>8} {:>11} {:>6} {:>8} {} {} {:>8}\n", "PID", "USER", "PROGRAM",
             "QPS FROM", "QPS", "PORTS", "MEMORY", traffic_heading("SENT"), traffic_heading("RECEIVED"),
             "DROPPED");
  for (const json& program : device.at("programs"))
    fmt::print("  {:>8} {:>6} {:<16.16} {:>#8x} {:>11} {:>6} {:>8} {} {} {:>8}\n",
               program.at("pid").get<int64_t>(), program.at("uid").get<uint32_t>(),
               text_in(program.at("name")), program.at("numbers").at("first").get<uint32_t>(),
               fmt::format("{}/{}", program.at("queue_pairs").get<uint32_t>(),
                           program.at("numbers").at("count").get<uint32_t>()),
               program.at("ports").get<uint32_t>(), in_units(program.at("memory_bytes").get<uint64_t>()),
               traffic_of(program, "sent"), traffic_of(program, "received"), dropped_of(program));
}

}  // namespace

int show_status(const std::string& socket, bool as_json) {
  const auto answer = ask(socket, {.type = MessageType::kStatus}, kAnswerMs);
  if (!answer) return fail("status", answer.error().message);
  try {
    const json status = json::parse(answer->text);
    if (as_json) {
      fmt::print("{}\n", status.dump(-1, ' ', true, json::error_handler_t::replace));
      return 0;
    }
    fmt::print("service at {}, process {}, up for {} s, {} programs\n", text_in(status.at("socket")),
               status.at("pid").get<int64_t>(), status.at("seconds").get<int64_t>(),
               status.at("programs").get<uint32_t>());
    for (const json& device : status.at("devices")) print_device(device);
  } catch (const json::exception& error) {
    return fail("status", fmt::format("the service's answer is not understood: {}", error.what()));
  }
  return 0;
}

int reload(const std::string& socket) {
  const auto answer = ask(socket, {.type = MessageType::kReload}, kReloadMs);
  return answer ? 0 : fail("reload", answer.error().message);
}

}  // namespace uroce::serve
