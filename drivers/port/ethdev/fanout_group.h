#pragma once

#include <functional>
#include <string>

#include "base/values/result.h"
#include "drivers/port/kernel/exclusive_name.h"

namespace uroce::drivers {

/// net_af_packet puts its sockets into a fanout group of the kernel, with one queue, too, and calls it by 16
/// bits of the process id and the interface's index. The kernel refuses a group of that name on another
/// interface, and makes two devices on one interface that have the same name share their frames.
///
/// So the device is made under a name that no port of the stack in this network namespace has: by `probe` in
/// this process if its own id will do, else in a child process that shares memory and descriptors with this
/// one and lives for that call only. Returns the name, to be kept as long as the device; an error when
/// `probe`, which returns 0 or a negative errno, has failed under several names.
Result<ExclusiveName> probe_in_own_fanout_group(const std::string& port, unsigned interface_index,
                                                const std::function<int()>& probe);

}  // namespace uroce::drivers
