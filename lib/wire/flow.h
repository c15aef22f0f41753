#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "wire/packet.h"

namespace uroce::wire {

/// parse_frame() of a frame that may belong to the same flow as one before it, as most of a burst do. When
/// it begins as that one did (MACs, addresses, ports, all but lengths), and nothing is wrong with it up to
/// the UDP header, the outcome is that of parse_frame() at a fraction of its cost; whatever was found of
/// `before` by its addresses holds for it, too. nullopt: parse it by itself. `before` was parsed with success
/// from a frame that is still there. Untagged IPv4 only.
std::optional<ParseOutcome> parse_alike(std::span<const std::byte> frame, const Packet& before,
                                        Packet& packet);

}  // namespace uroce::wire
