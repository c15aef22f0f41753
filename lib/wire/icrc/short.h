#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace uroce::wire {

/// Up to this size short_icrc() wins over ISA-L (perf/micro/icrc_bench), which pays for a masked copy of the
/// headers and two calls; beyond it ISA-L is as fast. CPUs with VPCLMULQDQ need neither there (wide_icrc.h).
inline constexpr size_t kShortIcrcBytesMax = 512;

/// Whether this CPU can run short_icrc().
inline bool has_short_icrc() {
  return __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("avx") != 0;
}

/// icrc_of() in one pass that masks the headers in registers. Any length from the end of the BTH on.
uint32_t short_icrc(std::span<const std::byte> ip_packet);

}  // namespace uroce::wire
