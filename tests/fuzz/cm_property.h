#pragma once

#include <cstddef>
#include <span>

#include "cm_target.h"

namespace uroce::fuzz {

/// Takes the input for what a consumer of the communication manager and its peers do, step by step. Throws
/// std::logic_error when something comes of it that must not (see CmTarget).
CmDepth check_conversation(std::span<const std::byte> input);

}  // namespace uroce::fuzz
