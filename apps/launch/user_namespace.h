#pragma once

#include <string_view>

#include "base/values/result.h"

namespace uroce::launch {

/// The errno of a call that has failed, with what it was for.
Status failed(std::string_view what);

/// Enters a user namespace in which the user has the same id and may mount: that of another process of the
/// user which has entered one here, or a new one. Processes in one namespace may go on reading each other's
/// memory, as MPI does (process_vm_readv). The process has one thread. On an error nothing has changed, or it
/// is in a namespace without a user.
Status enter_user_namespace();

}  // namespace uroce::launch
