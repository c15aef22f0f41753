#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace uroce::service {

/// What the service says of itself as of one moment, and what of that a user is shown. Texts are JSON
/// objects.
struct StatusSnapshot {
  struct ClientProcess {
    uid_t user = 0;
    std::string text;
  };
  struct Device {
    std::string text;
    std::vector<ClientProcess> programs;
  };

  uint64_t number = 0;  // of the moment; 0: there was none yet
  std::string service;
  std::vector<Device> devices;

  /// One object. A user sees the programs of that user, and how many there are beside these; `privileged`:
  /// all.
  [[nodiscard]] std::string text_for(uid_t user, bool privileged) const;
};

}  // namespace uroce::service
