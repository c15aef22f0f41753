#include "apps/mem/layout.h"

#include <algorithm>

namespace uroce::memory_export {
namespace {

constexpr uint32_t kMagic = 0x554D454D;  // "UMEM"

// Offsets. Every message begins with the magic number; all numbers are big-endian; what is not named is zero.
constexpr size_t kVersionAt = 4;
constexpr size_t kNameAt = 8;     // of a request
constexpr size_t kAccessAt = 5;   // of a grant
constexpr size_t kAddressAt = 8;  // of a grant
constexpr size_t kLengthAt = 16;  // of a grant, and of a flush request
constexpr size_t kKeyAt = 24;     // of a grant
constexpr size_t kReasonAt = 5;   // of a refusal
constexpr size_t kKindAt = 5;     // of messages
constexpr size_t kOffsetAt = 8;   // of a flush request
constexpr size_t kErrorAt = 8;    // of its answer
constexpr size_t kEntryLength = 48;
constexpr size_t kEntryAccess = 56;

constexpr uint8_t kReads = 1;
constexpr uint8_t kWrites = 2;
constexpr uint8_t kFlushRequest = 1;
constexpr uint8_t kFlushAnswer = 2;

template <typename T>
void put(std::span<std::byte> bytes, size_t at, T value) {
  for (size_t i = 0; i < sizeof(T); ++i)
    bytes[at + i] = static_cast<std::byte>(value >> 8 * (sizeof(T) - 1 - i));
}

template <typename T>
T get(std::span<const std::byte> bytes, size_t at) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(value << 8 | std::to_integer<T>(bytes[at + i]));
  return value;
}

template <typename Bytes>
Bytes begun() {
  Bytes bytes{};
  put(bytes, 0, kMagic);
  put(bytes, kVersionAt, kVersion);
  return bytes;
}

template <typename Bytes>
bool has_magic(std::span<const std::byte> bytes) {
  return bytes.size() >= Bytes{}.size() && get<uint32_t>(bytes, 0) == kMagic;
}

template <typename Bytes>
bool is_of(std::span<const std::byte> bytes) {
  return has_magic<Bytes>(bytes) && get<uint8_t>(bytes, kVersionAt) == kVersion;
}

void put_name(std::span<std::byte> field, std::string_view name) {
  const auto bytes = std::as_bytes(std::span(name));
  std::ranges::copy(bytes.first(std::min(bytes.size(), kNameMax)), field.begin());
}

/// What stands before the first zero; nullopt when there is none or it is no name.
std::optional<std::string> get_name(std::span<const std::byte> field) {
  const auto* text = reinterpret_cast<const char*>(field.data());
  const std::string_view all(text, kNameMax + 1);
  const size_t end = all.find('\0');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view name = all.substr(0, end);
  if (!name.empty() && !is_region_name(name)) return std::nullopt;
  return std::string(name);
}

uint8_t access_of(bool writable) { return writable ? kReads | kWrites : kReads; }

}  // namespace

bool is_region_name(std::string_view name) {
  if (name.empty() || name.size() > kNameMax || name.front() == ' ' || name.back() == ' ') return false;
  return std::ranges::all_of(name, [](char c) { return c >= ' ' && c <= '~'; });
}

RequestBytes encode_request(std::string_view name) {
  auto bytes = begun<RequestBytes>();
  put_name(std::span(bytes).subspan(kNameAt), name);
  return bytes;
}

GrantBytes encode(const Grant& grant) {
  auto bytes = begun<GrantBytes>();
  put(bytes, kAccessAt, access_of(grant.writable));
  put(bytes, kAddressAt, grant.address);
  put(bytes, kLengthAt, grant.length);
  put(bytes, kKeyAt, grant.key);
  return bytes;
}

RefusalBytes encode(Refusal refusal) {
  auto bytes = begun<RefusalBytes>();
  put(bytes, kReasonAt, static_cast<uint8_t>(refusal));
  return bytes;
}

FlushBytes encode(const Flush& flush) {
  auto bytes = begun<FlushBytes>();
  put(bytes, kKindAt, kFlushRequest);
  put(bytes, kOffsetAt, flush.offset);
  put(bytes, kLengthAt, flush.length);
  return bytes;
}

FlushedBytes encode_flushed(uint32_t error) {
  auto bytes = begun<FlushedBytes>();
  put(bytes, kKindAt, kFlushAnswer);
  put(bytes, kErrorAt, error);
  return bytes;
}

EntryBytes encode(const Entry& entry) {
  EntryBytes bytes{};
  put_name(bytes, entry.name);
  put(bytes, kEntryLength, entry.length);
  put(bytes, kEntryAccess, access_of(entry.writable));
  return bytes;
}

std::variant<std::string, Refusal> parse_request(std::span<const std::byte> bytes) {
  if (!has_magic<RequestBytes>(bytes)) return Refusal::kMalformed;
  if (!is_of<RequestBytes>(bytes)) return Refusal::kOtherVersion;
  auto name = get_name(bytes.subspan(kNameAt));
  if (!name) return Refusal::kMalformed;
  return *std::move(name);
}

std::optional<Grant> parse_grant(std::span<const std::byte> bytes) {
  if (!is_of<GrantBytes>(bytes)) return std::nullopt;
  return Grant{.address = get<uint64_t>(bytes, kAddressAt),
               .length = get<uint64_t>(bytes, kLengthAt),
               .key = get<uint32_t>(bytes, kKeyAt),
               .writable = (get<uint8_t>(bytes, kAccessAt) & kWrites) != 0};
}

std::optional<std::pair<Refusal, uint8_t>> parse_refusal(std::span<const std::byte> bytes) {
  if (!has_magic<RefusalBytes>(bytes)) return std::nullopt;
  return std::pair{static_cast<Refusal>(get<uint8_t>(bytes, kReasonAt)), get<uint8_t>(bytes, kVersionAt)};
}

std::optional<Flush> parse_flush(std::span<const std::byte> bytes) {
  if (bytes.size() != FlushBytes{}.size() || !is_of<FlushBytes>(bytes)) return std::nullopt;
  if (get<uint8_t>(bytes, kKindAt) != kFlushRequest) return std::nullopt;
  return Flush{.offset = get<uint64_t>(bytes, kOffsetAt), .length = get<uint64_t>(bytes, kLengthAt)};
}

std::optional<uint32_t> parse_flushed(std::span<const std::byte> bytes) {
  if (bytes.size() != FlushedBytes{}.size() || !is_of<FlushedBytes>(bytes)) return std::nullopt;
  if (get<uint8_t>(bytes, kKindAt) != kFlushAnswer) return std::nullopt;
  return get<uint32_t>(bytes, kErrorAt);
}

std::optional<Entry> parse_entry(std::span<const std::byte> bytes) {
  if (bytes.size() < EntryBytes{}.size()) return std::nullopt;
  auto name = get_name(bytes);
  if (!name || name->empty()) return std::nullopt;
  return Entry{.name = *std::move(name),
               .length = get<uint64_t>(bytes, kEntryLength),
               .writable = (get<uint8_t>(bytes, kEntryAccess) & kWrites) != 0};
}

}  // namespace uroce::memory_export
