#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

// The ICRC of a long packet in vectors of 32 or 64 bytes, for CPUs with VPCLMULQDQ (and AVX-512).
namespace uroce::wire {

/// From here on they win over short_icrc() (perf/micro/icrc_bench).
inline constexpr size_t kWideIcrcBytesMin = 256;

/// Whether this CPU can run what ends in _256.
inline bool has_wide_icrc_256() {
  return __builtin_cpu_supports("vpclmulqdq") != 0 && __builtin_cpu_supports("avx2") != 0 &&
         __builtin_cpu_supports("pclmul") != 0;
}

/// Whether this CPU can run what ends in _512.
inline bool has_wide_icrc_512() { return has_wide_icrc_256() && __builtin_cpu_supports("avx512vl") != 0; }

/// icrc_of() of at least kWideIcrcBytesMin bytes. Meanwhile `next` is brought into the cache.
uint32_t wide_icrc_256(std::span<const std::byte> ip_packet, std::span<const std::byte> next = {});
uint32_t wide_icrc_512(std::span<const std::byte> ip_packet, std::span<const std::byte> next = {});

/// Copies at least kWideIcrcBytesMin bytes, which may change meanwhile, and takes them as copied into `icrc`,
/// a uint32_t: icrc_of() what stands before them. One pass instead of two; the form is that of
/// copy::SummingCopy.
void wide_copy_with_icrc_256(std::byte* to, const std::byte* from, size_t bytes, void* icrc);
void wide_copy_with_icrc_512(std::byte* to, const std::byte* from, size_t bytes, void* icrc);
/// wide_copy_with_icrc_256() by non-temporal stores, from the first whole cache line on. The caller makes an
/// sfence before it shows the copy.
void wide_stream_with_icrc_256(std::byte* to, const std::byte* from, size_t bytes, void* icrc);
void wide_stream_with_icrc_512(std::byte* to, const std::byte* from, size_t bytes, void* icrc);

}  // namespace uroce::wire
