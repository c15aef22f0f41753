#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace uroce::wire {

/// Up to this size short_icrc() wins over ISA-L (perf/micro/icrc_bench), which pays for a masked copy of the
/// headers and two calls; beyond it ISA-L is as fast. CPUs with VPCLMULQDQ need neither there (wide.h).
inline constexpr size_t kShortIcrcBytesMax = 512;

/// Whether this CPU can run short_icrc().
inline bool has_short_icrc() {
  return __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("avx") != 0;
}

/// icrc_of() in one pass that masks the headers in registers. Any length from the end of the BTH on.
uint32_t short_icrc(std::span<const std::byte> ip_packet);

/// icrc_of() what stands before the PSN, which is the last word of the BTH; nothing that follows is masked.
/// Packets of one kind to one peer have it in common. 0: not known, for the CPU cannot run short_icrc_from().
uint32_t icrc_before_psn(std::span<const std::byte> ip_packet);
/// icrc_of() the whole, of which `rest` is the PSN and what follows: any number of words, behind at least 16
/// bytes of headers. `before` is icrc_before_psn(). Wants has_short_icrc().
uint32_t short_icrc_from(uint32_t before, std::span<const std::byte> rest);

}  // namespace uroce::wire
