#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

// The ICRC of a long packet in vectors of 32 bytes, for CPUs with VPCLMULQDQ.
namespace uroce::wire {

/// From here on it wins over short_icrc(), and is about twice as fast as ISA-L (perf/micro/icrc_bench).
inline constexpr size_t kWideIcrcBytesMin = 256;

/// Whether this CPU can run wide_icrc(), and ISA-L has nothing wider: with AVX-512 it has.
inline bool has_wide_icrc() {
  return __builtin_cpu_supports("vpclmulqdq") != 0 && __builtin_cpu_supports("avx2") != 0 &&
         __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("avx512vl") == 0;
}

/// icrc_of() of at least kWideIcrcBytesMin bytes.
uint32_t wide_icrc(std::span<const std::byte> ip_packet);

/// Copies at least kWideIcrcBytesMin bytes, which may change meanwhile, and takes them as copied into `icrc`,
/// a uint32_t: icrc_of() what stands before them. One pass instead of two; the form is that of
/// copy::SummingCopy.
void wide_copy_with_icrc(std::byte* to, const std::byte* from, size_t bytes, void* icrc);

}  // namespace uroce::wire
