#pragma once

#include <array>
#include <cstddef>

#include "queue/operation.h"
#include "wire/opcode.h"

namespace uroce::qp {

/// The opcodes of each operation's packets: 1 for a first packet and 2 for a last one (wire::Position).
inline constexpr auto kMessageOpcodes = queue::column([](const queue::OperationRow& row) {
  std::array<wire::Operation, 4> opcodes{};
  const uint8_t numbers[] = {row.packets.middle, row.packets.first, row.packets.last, row.packets.only};
  for (size_t i = 0; i < opcodes.size(); ++i) opcodes[i] = static_cast<wire::Operation>(numbers[i]);
  return opcodes;
});

inline wire::Operation opcode_of(queue::SendOperation operation, bool first, bool last) {
  return kMessageOpcodes[static_cast<size_t>(operation)][unsigned{first} | unsigned{last} << 1];
}

}  // namespace uroce::qp
