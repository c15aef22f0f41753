#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

// What a client and a memory server tell each other. apps/mem/README.md has the layout for other clients.
namespace uroce::memory_export {

constexpr uint16_t kDefaultPort = 18520;
constexpr uint8_t kVersion = 1;
/// ACK timeout of both ends: 4.096 us times 2 to that power. A peer that was killed is then missed
/// after some 5 s, rather than the 20 s of rdma_cm's default.
constexpr uint8_t kAckTimeout = 16;
/// Length of a region's name at most, in bytes.
constexpr size_t kNameMax = 47;

/// Printable ASCII, without spaces at its ends, and not too long. The empty name is the directory's.
bool is_region_name(std::string_view name);

/// In the private data of the client's request: which region it wants.
using RequestBytes = std::array<std::byte, 56>;
/// In the private data of the server's acceptance.
using GrantBytes = std::array<std::byte, 32>;
/// In the private data of the server's refusal.
using RefusalBytes = std::array<std::byte, 8>;
/// One message from the client, and one back.
using FlushBytes = std::array<std::byte, 24>;
using FlushedBytes = std::array<std::byte, 16>;
/// The region with the empty name is an array of these, sorted by name.
using EntryBytes = std::array<std::byte, 64>;

enum class Refusal : uint8_t {
  kMalformed = 1,
  kOtherVersion = 2,  // the refusal says which one the server speaks
  kUnknownName = 3,   // no region has that name
  kBusy = 4,          // too many connections
  kFailed = 5,        // the server could not get what the connection needs
  kClientBusy = 6,    // too many connections of this client
};

/// Where a region is, and what a peer may do there.
struct Grant {
  uint64_t address = 0;
  uint64_t length = 0;
  uint32_t key = 0;
  bool writable = false;
  bool operator==(const Grant&) const = default;
};

/// Asks that what was written to a range of the region reaches its file.
struct Flush {
  uint64_t offset = 0;
  uint64_t length = 0;
  bool operator==(const Flush&) const = default;
};

struct Entry {
  std::string name;
  uint64_t length = 0;
  bool writable = false;
  bool operator==(const Entry&) const = default;
};

RequestBytes encode_request(std::string_view name);
GrantBytes encode(const Grant& grant);
RefusalBytes encode(Refusal refusal);
FlushBytes encode(const Flush& flush);
FlushedBytes encode_flushed(uint32_t error);
EntryBytes encode(const Entry& entry);

// What a peer sent may be longer: rdma_cm pads private data. Nullopt: it is not one.

/// The wanted name, or why the request is refused.
std::variant<std::string, Refusal> parse_request(std::span<const std::byte> bytes);
std::optional<Grant> parse_grant(std::span<const std::byte> bytes);
/// With the version that the server speaks.
std::optional<std::pair<Refusal, uint8_t>> parse_refusal(std::span<const std::byte> bytes);
std::optional<Flush> parse_flush(std::span<const std::byte> bytes);
/// 0, or an errno of Linux.
std::optional<uint32_t> parse_flushed(std::span<const std::byte> bytes);
std::optional<Entry> parse_entry(std::span<const std::byte> bytes);

}  // namespace uroce::memory_export
