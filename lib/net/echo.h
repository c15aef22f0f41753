#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "net/gid_table.h"

namespace uroce::net {

/// True for what echo_reply() may answer: an ICMP or ICMPv6 echo request, behind `tag_bytes` of a VLAN tag.
[[nodiscard]] bool looks_like_echo(std::span<const std::byte> frame, size_t tag_bytes);

/// Answers an echo request (RFC 792, RFC 4443) that came to our MAC: writes the reply and returns its length.
/// 0: nothing is answered, because it is not for an address of ours, malformed, a fragment, has IP options,
/// comes from a group, or its reply does not fit.
uint32_t echo_reply(std::span<const std::byte> request, const GidTable& gids, std::span<std::byte> reply);

}  // namespace uroce::net
