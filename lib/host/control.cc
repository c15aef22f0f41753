#include "host/control.h"

#include <algorithm>
#include <cstring>

namespace uroce::host {

std::optional<Message> parse_message(std::span<const std::byte> datagram) {
  if (datagram.size() != sizeof(Message)) return std::nullopt;
  Message message;
  std::memcpy(&message, datagram.data(), sizeof message);
  const bool known = message.type >= MessageType::kList && message.type <= MessageType::kLast;
  const bool ends = message.name.back() == 0 && message.text.back() == 0;
  const bool keys = message.partition_keys_count <= message.partition_keys.size();
  return known && ends && keys ? std::optional(message) : std::nullopt;
}

std::span<const std::byte> bytes_of(const Message& message) { return std::as_bytes(std::span(&message, 1)); }

}  // namespace uroce::host
