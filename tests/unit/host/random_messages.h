#pragma once

#include <sys/eventfd.h>

#include <cstring>

#include "base/values/random.h"
#include "tests/unit/host/fake_service.h"

namespace uroce::testing {

/// A message of a service that says anything, more often than not in the range of what makes sense.
inline host::Message random_message(Random& random) {
  host::Message message;
  std::array<std::byte, sizeof message> bytes;
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  std::memcpy(&message, bytes.data(), sizeof message);
  message.type =
      static_cast<host::MessageType>(1 + random.below(static_cast<uint64_t>(host::MessageType::kLast)));
  message.name.back() = message.text.back() = 0;
  message.partition_keys_count = static_cast<uint16_t>(random.below(17));
  if (random.chance(3, 4)) message.request = static_cast<uint32_t>(random.below(16));
  if (random.chance(1, 2)) message.error = 0;
  if (random.chance(3, 4)) message.number = static_cast<uint32_t>(random.below(64)) << host::kBlockBits;
  if (random.chance(3, 4)) message.count = 1u << random.below(16);
  if (random.chance(3, 4)) message.channel = static_cast<uint32_t>(random.below(512));
  if (random.chance(1, 2))
    message.address = Gid::from_ipv4({192, 0, 2, bytes[0] < std::byte{128} ? uint8_t{1} : uint8_t{7}});
  if (random.chance(1, 2)) message.hop = message.address;
  if (random.chance(1, 2)) message.prefix_bits = 24;
  if (random.chance(1, 2)) message.vlan = 0;
  return message;
}

/// Descriptors to go with it: sound ones, others, none.
inline std::vector<int> random_descriptors(Random& random, Conversation& conversation, int program_memory) {
  std::vector<int> descriptors;
  for (uint64_t left = random.below(4); left > 0; --left) {
    const int any[] = {program_memory, program_memory, conversation.memory().descriptor(),
                       conversation.bell(), 0};
    descriptors.push_back(any[random.below(std::size(any))]);
  }
  return descriptors;
}

/// Words anywhere in a memory, of which a program maps one channel's ring at `channel`.
inline void write_anything(Random& random, std::byte* memory, host::MemoryShape shape, uint32_t channel,
                           uint32_t step) {
  const host::MemoryLayout layout(shape);
  auto* const ring = layout.ring(memory, channel);
  const host::FrameDescriptor descriptor{
      .frame = static_cast<uint16_t>(random.below(shape.frames)),
      .length = static_cast<uint16_t>(random.chance(1, 500)
                                          ? random.below(1u << 15)
                                          : host::kFrameBytesMin +
                                                random.below(host::kFrameBytes - host::kFrameBytesMin + 1)),
      .has_icrc = random.chance(1, 2),
      .sequence = step + 1};
  const bool wild = random.chance(1, 500);
  ring[step % host::kRingFrames].store(wild ? random.next() : descriptor.pack());
  std::byte* const frame = layout.frame(memory, descriptor.frame);
  for (int i = 0; i < 64; ++i) frame[random.below(host::kFrameBytes)] = static_cast<std::byte>(random.next());
  if (random.chance(1, 10))
    layout.consumed(memory, channel)
        .count.store(random.chance(1, 100) ? static_cast<uint32_t>(random.next()) : 0);
  layout.bell(memory).word.store(static_cast<uint32_t>(random.below(3)));
}

}  // namespace uroce::testing
