#pragma once

#include <map>
#include <string>

// DPDK opens descriptors without saying which, and lets a program that is executed later inherit them: a copy
// of a memif connection would keep it alive when this process has died.
namespace uroce::drivers {

struct OpenDescriptor {
  std::string target;  // as /proc tells it
  bool closes_on_exec;
  bool operator==(const OpenDescriptor&) const = default;
};
/// The process's descriptors by number.
using OpenDescriptors = std::map<int, OpenDescriptor>;
OpenDescriptors open_descriptors();

/// Other threads of the program run: what is new may also be theirs.
bool program_has_threads();

/// Makes what was opened since `before` close when another program is executed. With `selective` only what
/// is DPDK's for sure or what is never handed on: no pipes, files and ordinary sockets.
void close_new_on_exec(const OpenDescriptors& before, bool selective);

}  // namespace uroce::drivers
