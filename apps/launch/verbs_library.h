#pragma once

#include <string>

namespace uroce::launch {

/// The file that this program's calls of verbs end in, empty when unknown. LD_LIBRARY_PATH may have led to
/// that of a hardware device.
std::string verbs_library();

/// The file that this program's calls of verbs end in, empty when it is ours.
std::string foreign_verbs_library();

}  // namespace uroce::launch
