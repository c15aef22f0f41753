#include "known_deviations.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "tables.h"

namespace uroce::replay {

namespace {

uint8_t syndrome_of(const wire::Aeth& aeth) {
  return static_cast<uint8_t>(static_cast<unsigned>(aeth.kind) << 5 | aeth.value);
}

/// That of the next packet that says one.
uint32_t next_msn(const Conversation& conversation, const Packet& after) {
  for (const Packet& packet : conversation.packets) {
    const bool same_end = conversation.sender(packet) == conversation.sender(after);
    if (packet.number > after.number && same_end && packet.has_aeth()) return packet.aeth().msn;
  }
  return 0;
}

void correct(const Conversation& conversation, const Packet& answer, const DeviationRow& row,
             wire::Headers& headers) {
  const bool syndrome = row.field == "syndrome";
  const uint8_t captured = syndrome ? syndrome_of(headers.aeth) : headers.bth.opcode.value;
  if ((!syndrome && row.field != "opcode") || captured != row.kernel) {
    throw std::runtime_error(
        fmt::format("known_deviations.txt: {} frame {} is not as it says", row.capture, row.frame));
  }
  if (syndrome) {
    headers.aeth.kind = static_cast<wire::AethKind>(row.standard >> 5);
    headers.aeth.value = row.standard & 0x1F;
    return;
  }
  headers.bth.opcode.value = row.standard;
  if (!answer.has_aeth()) headers.aeth = wire::Aeth::ack(next_msn(conversation, answer));
}

}  // namespace

Packet by_the_standard(const Conversation& conversation, const Packet& answer, const Requests& requests) {
  wire::Headers headers = answer.parsed.headers;
  for (const DeviationRow& row : deviation_rows()) {
    if (row.capture == conversation.capture && row.frame == answer.number) {
      correct(conversation, answer, row, headers);
    }
  }
  if (requests.missing) {
    headers.aeth.msn = std::min(headers.aeth.msn, static_cast<uint32_t>(requests.messages.size()));
  }
  return rewritten(answer, headers, answer.parsed.payload);
}

}  // namespace uroce::replay
