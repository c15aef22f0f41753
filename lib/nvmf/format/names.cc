#include "nvmf/format/names.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "nvmf/format/fabrics.h"

namespace uroce::nvmf {

bool is_nqn(std::string_view text) {
  constexpr std::string_view kPrefix = "nqn.";
  return text.size() > kPrefix.size() && text.size() <= kNqnBytesMax && text.starts_with(kPrefix);
}

std::optional<std::string_view> nqn_in(std::span<const char> field) {
  const auto end = std::find(field.begin(), field.end(), '\0');
  if (end == field.end()) return std::nullopt;
  const std::string_view text(field.data(), static_cast<size_t>(end - field.begin()));
  if (!is_nqn(text)) return std::nullopt;
  return text;
}

std::array<uint8_t, 16> derived_uuid(std::string_view nqn, uint32_t nsid) {
  // FNV-1a, two of them with different beginnings: it has to be spread, not secret.
  constexpr uint64_t kPrime = 0x100000001B3;
  std::array<uint64_t, 2> hash = {0xCBF29CE484222325, 0x84222325CBF29CE4};
  const auto mix = [&hash](uint8_t byte) {
    for (uint64_t& half : hash) half = (half ^ byte) * kPrime;
  };
  for (const char c : nqn) mix(static_cast<uint8_t>(c));
  for (uint32_t shift = 0; shift < 32; shift += 8) mix(static_cast<uint8_t>(nsid >> shift));
  std::array<uint8_t, 16> uuid;
  std::memcpy(uuid.data(), hash.data(), uuid.size());
  uuid[6] = static_cast<uint8_t>((uuid[6] & 0x0F) | 0x80);
  uuid[8] = static_cast<uint8_t>((uuid[8] & 0x3F) | 0x80);
  return uuid;
}

void put_padded(std::span<char> field, std::string_view text) {
  std::ranges::fill(field, ' ');
  std::ranges::copy(text.substr(0, field.size()), field.begin());
}

void put_terminated(std::span<char> field, std::string_view text) {
  std::ranges::fill(field, '\0');
  std::ranges::copy(text.substr(0, field.size() - 1), field.begin());
}

}  // namespace uroce::nvmf
