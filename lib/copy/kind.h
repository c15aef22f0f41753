#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace uroce::copy {

/// How bytes are moved. All kinds obey the same visibility rules (placer.h); a configuration may force one.
enum class Kind : uint8_t {
  kAuto,            // non-temporal for long pieces of cold destinations, ordinary otherwise
  kOrdinary,        // memcpy
  kString,          // rep movsb
  kNonTemporal,     // streaming stores, widest the CPU has
  kNonTemporal128,  // streaming stores of 16 bytes: every x86-64 CPU
  kNonTemporal256,  // AVX2
  kNonTemporal512,  // AVX-512
};

/// Copies bytes that do not overlap. A streaming one leaves stores behind that only an sfence orders.
using CopyFunction = void (*)(std::byte* to, const std::byte* from, size_t length);
/// A copy that takes what it moves into `sum`, whatever that is to it.
using SummingCopy = void (*)(std::byte* to, const std::byte* from, size_t length, void* sum);

struct KindRow {
  Kind kind;
  std::string_view name;  // as a configuration writes it
  CopyFunction hot;       // for destinations that are in cache, or that nothing is known about
  CopyFunction cold;      // for destinations that are not
  bool hot_streams;
  bool cold_streams;
};

/// One row for each kind that this CPU has; kAuto first. The CPU is asked once.
std::span<const KindRow> kinds();

/// nullptr when this CPU lacks it, or there is no such kind.
const KindRow* find_kind(Kind kind);
const KindRow* find_kind(std::string_view name);

}  // namespace uroce::copy
