#pragma once

#include <optional>
#include <string>

#include "drivers/port/kernel/devargs.h"

namespace uroce::drivers {

/// Which end of which link a memif is, as its driver understands the arguments.
struct MemifEnd {
  bool server;
  std::string id;      // of the link among those of the socket
  std::string socket;  // a file's path, or with `abstract` a name
  bool abstract;

  [[nodiscard]] bool serves_file() const { return server && !abstract; }
};

/// Nothing when the device is no memif.
std::optional<MemifEnd> memif_end(const Devargs& devargs);

}  // namespace uroce::drivers
