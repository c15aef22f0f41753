#include "apps/serve/fault_client.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/serve/asking.h"

namespace uroce::serve {
namespace {

using host::MessageType;
using nlohmann::json;

void print_fault(const json& fault) {
  std::string counts;
  for (const auto& [name, count] : fault.at("counts").items())
    if (const auto value = count.get<uint64_t>(); value != 0)
      counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", value, name);
  fmt::print("{:>5} {:<8} {:>8} {:<40} {}\n", fault.at("id").get<uint32_t>(),
             fault.at("state").get<std::string>(), fault.at("programs").get<uint32_t>(),
             fault.at("rule").get<std::string>(), counts.empty() ? "no packet" : counts);
}

}  // namespace

int add_fault(const std::string& socket, const std::string& rule) {
  host::Message message{.type = MessageType::kFaultAdd};
  host::set_text(message.text, rule);
  const auto answer = ask(socket, message, kAnswerMs);
  if (!answer) return fail("fault add", answer.error().message);
  fmt::print("{}\n", answer->number);
  return 0;
}

int break_object(const std::string& socket, const std::string& order) {
  host::Message message{.type = MessageType::kFaultAdd};
  host::set_text(message.text, order);
  const auto answer = ask(socket, message, kAnswerMs);
  if (!answer) return fail("fault break", answer.error().message);
  fmt::print("{}\n", answer->number);
  return 0;
}

int list_faults(const std::string& socket, bool as_json) {
  const auto answer = ask(socket, {.type = MessageType::kFaultList}, kAnswerMs);
  if (!answer) return fail("fault list", answer.error().message);
  if (as_json) {
    fmt::print("{}\n", answer->text);
    return 0;
  }
  try {
    const json all = json::parse(answer->text);
    if (all.empty()) return 0;
    fmt::print("{:>5} {:<8} {:>8} {:<40} {}\n", "ID", "STATE", "PROGRAMS", "FAULT", "PACKETS");
    for (const json& fault : all) print_fault(fault);
  } catch (const json::exception& error) {
    return fail("fault list", fmt::format("the answer is not understood: {}", error.what()));
  }
  return 0;
}

int clear_fault(const std::string& socket, uint32_t id) {
  const auto answer = ask(socket, {.type = MessageType::kFaultRemove, .number = id}, kAnswerMs);
  return answer ? 0 : fail("fault clear", answer.error().message);
}

}  // namespace uroce::serve
