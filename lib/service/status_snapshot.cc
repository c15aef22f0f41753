#include "service/status_snapshot.h"

#include <fmt/format.h>

#include <string_view>

namespace uroce::service {
namespace {

/// The object with one member more.
std::string with_member(std::string_view object, std::string_view member) {
  object.remove_suffix(1);
  return fmt::format("{}{}{}}}", object, object.size() > 1 ? "," : "", member);
}

}  // namespace

std::string StatusSnapshot::text_for(uid_t user, bool privileged) const {
  std::string all;
  for (const Device& device : devices) {
    std::string programs;
    size_t others = 0;
    for (const ClientProcess& program : device.programs) {
      if (!privileged && program.user != user) {
        ++others;
        continue;
      }
      if (!programs.empty()) programs += ',';
      programs += program.text;
    }
    if (!all.empty()) all += ',';
    all += with_member(device.text, fmt::format(R"("programs":[{}],"other_programs":{})", programs, others));
  }
  return with_member(service, fmt::format(R"("devices":[{}])", all));
}

}  // namespace uroce::service
