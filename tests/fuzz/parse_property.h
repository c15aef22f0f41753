#pragma once

#include <cstddef>
#include <span>

namespace uroce::fuzz {

/// What holds for every frame, whatever a peer put into it; aborts where it does not. Parses, checks the
/// ICRC, prints, and emits a parsed packet again, which must parse to the same.
void check_frame(std::span<const std::byte> frame);

/// The same for what a peer sends to QP 1: a message of the communication manager is written again, and must
/// read as it was, with what rdma_cm put into it; nothing comes into it that was not there.
void check_mad(std::span<const std::byte> mad);

}  // namespace uroce::fuzz
