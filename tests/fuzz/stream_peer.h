#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "choices.h"
#include "stream_target.h"

namespace uroce::fuzz {

/// The other end of a StreamTarget. By itself it keeps to the protocol, so that a stream comes deep into it:
/// it sends messages, packet by packet, and answers what it is asked. Whatever it sends may be changed in
/// any field on the way out.
class StreamPeer {
 public:
  explicit StreamPeer(StreamTarget*& target) : target_(target) {}

  /// Both ends begin anew.
  void restart();
  /// A frame of the target's.
  void observe(std::span<const std::byte> frame);

  void send_request(Choices& choices);
  void send_answer(Choices& choices);

 private:
  struct Asked {
    Psn psn;
    uint32_t packets = 1;  // of a response
    uint32_t bytes = 0;    // of a READ
    enum class Kind : uint8_t { kAcknowledge, kRead, kAtomic, kDone } kind = Kind::kAcknowledge;
  };
  static constexpr size_t kAskedMax = 512;

  [[nodiscard]] wire::Headers headers(wire::Operation operation, Psn psn) const;
  void begin_message(Choices& choices);
  wire::Operation next_of_message(Choices& choices, wire::Headers& headers, uint32_t& bytes);
  [[nodiscard]] bool is_connected() const;
  void use_other_key(Choices& choices, wire::Headers& headers) const;
  void mutate(Choices& choices, wire::Headers& headers, uint32_t& bytes) const;
  void send(const wire::Headers& headers, uint32_t bytes, uint8_t content);
  void note(const wire::Packet& packet);

  StreamTarget*& target_;

  // Towards the target.
  Psn next_;
  bool write_ = false;
  uint32_t left_ = 0;  // bytes of the message that are not sent
  bool first_ = true;

  // From the target: what is not answered, oldest first.
  std::array<Asked, kAskedMax> asked_{};
  size_t asked_first_ = 0;
  size_t asked_count_ = 0;
  uint32_t answered_packets_ = 0;  // of the oldest
  uint32_t msn_ = 0;
  std::array<std::array<std::byte, Pool::kFrameBytes>, StreamTarget::kBurstMax> frames_{};
  size_t frame_number_ = 0;
};

}  // namespace uroce::fuzz
