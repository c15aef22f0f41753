#include "drivers/port/ethdev/nic_facts.h"

#include <rte_ethdev.h>

#include <algorithm>
#include <bit>

namespace uroce::drivers {
namespace {

/// Adds the names of the bits.
void name(std::string& text, uint64_t bits, const char* (*name_of)(uint64_t)) {
  for (; bits != 0; bits &= bits - 1) {
    text += text.empty() ? "" : " ";
    text += name_of(bits & -bits);
  }
}

}  // namespace

uint32_t nic_buffer_bytes(std::string_view driver, uint32_t frame_bytes, uint32_t least) {
  constexpr uint32_t kUnit = 1024;
  const uint32_t bytes = std::max(frame_bytes, least);
  if (driver == "net_e1000_em") return std::bit_ceil(bytes);
  return (bytes + kUnit - 1) / kUnit * kUnit;
}

std::string offloads_of(const rte_eth_dev_info& info) {
  std::string receiving;
  std::string sending;
  name(receiving, info.rx_offload_capa, rte_eth_dev_rx_offload_name);
  name(sending, info.tx_offload_capa, rte_eth_dev_tx_offload_name);
  const auto or_none = [](const std::string& text) { return text.empty() ? std::string("none") : text; };
  return "none used; it has, receiving: " + or_none(receiving) + "; sending: " + or_none(sending);
}

}  // namespace uroce::drivers
