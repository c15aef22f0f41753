#pragma once

#include "apps/launch/device_files.h"
#include "base/values/result.h"

namespace uroce::launch {

/// Shows `files` to this process and to the program that it becomes, and to no other: in a mount namespace of
/// its own, which for a user without capabilities belongs to a user namespace in which the user has the same
/// id. Nothing is done where the files are there already. Everything else in /sys/class and /dev stays as it
/// is. The process has one thread. On an error nothing is shown, and the process may be in namespaces of its
/// own.
Status show_device_files(const DeviceFiles& files);

/// Whether show_device_files() would do it, or why not. Changes nothing.
Status can_show_device_files(const DeviceFiles& files);

}  // namespace uroce::launch
