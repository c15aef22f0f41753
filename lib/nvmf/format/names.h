#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace uroce::nvmf {

/// An NQN that may stand in a field of 256 bytes (NVMe 1.4, section 7.9): its text up to the NUL.
/// nullopt: it does not end, is too long, or is none.
std::optional<std::string_view> nqn_in(std::span<const char> field);
bool is_nqn(std::string_view text);

/// A UUID that is always the same for the same namespace (of the shape of version 8 of RFC 9562).
std::array<uint8_t, 16> derived_uuid(std::string_view nqn, uint32_t nsid);

/// Text in a field that is filled with blanks (serial, model, firmware), or cut off.
void put_padded(std::span<char> field, std::string_view text);
/// Text in a field that is filled with NULs; there is room for one.
void put_terminated(std::span<char> field, std::string_view text);

}  // namespace uroce::nvmf
