#pragma once

#include <cstddef>
#include <span>

namespace uroce::fuzz {

/// What holds for every frame, whatever a peer put into it; aborts where it does not. Parses, checks the
/// ICRC, prints, and emits a parsed packet again, which must parse to the same.
void check_frame(std::span<const std::byte> frame);

}  // namespace uroce::fuzz
