#include "shared_property.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <set>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "capture/ring.h"
#include "choices.h"
#include "host/channel.h"
#include "host/connection_rows.h"
#include "host/control.h"
#include "host/shared_device.h"

namespace uroce::fuzz {
namespace {

using host::Channel;
using host::FrameDescriptor;
using host::MemoryLayout;
using host::Message;

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

using Memory = std::unique_ptr<std::byte, decltype(&std::free)>;

/// A sanitizer looks at its ends.
Memory make_memory(size_t bytes) {
  Memory memory(static_cast<std::byte*>(std::aligned_alloc(4096, bytes)), std::free);
  std::memset(memory.get(), 0, bytes);
  return memory;
}

/// A control message: as it is, or as one that has the format and differs by what the input says.
void check_message(Choices& choices, std::span<const std::byte> input, SharedDepth& depth) {
  std::array<std::byte, sizeof(Message)> datagram{};
  if (!choices.once_in(2)) {
    Message sound{.type = static_cast<host::MessageType>(1 + choices.below(40))};
    sound.partition_keys_count = static_cast<uint16_t>(choices.below(20));
    std::ranges::copy(host::bytes_of(sound), datagram.begin());
    while (!choices.over())
      datagram[choices.below(sizeof(Message))] = static_cast<std::byte>(choices.below(256));
    input = datagram;
  }
  const auto message = host::parse_message(input);
  if (!message) return;
  ++depth.messages;
  require(std::ranges::equal(host::bytes_of(*message), input), "a message changes on its way");
  require(host::text_of(message->name).size() < message->name.size(), "a name does not end");
  require(host::text_of(message->text).size() < message->text.size(), "a text does not end");
  require(message->partition_keys_count <= message->partition_keys.size(),
          "more keys than there is room for");
}

/// Our end of a channel, whose far end writes anything.
class ChannelEnd {
 public:
  static constexpr host::MemoryShape kShape{.channels = 2, .frames = 8};

  /// Tries one input.
  static void check(Choices& choices, SharedDepth& depth) {
    // All but the frames, at whose bytes nothing looks.
    for (std::byte* const memory : {own_memory(), far_memory()})
      std::fill(memory, layout().frame(memory, 0), std::byte{});
    ChannelEnd(choices).run(depth);
  }

 private:
  static constexpr uint32_t kNumber = 1;

  explicit ChannelEnd(Choices& choices) : choices_(choices) {}
  void run(SharedDepth& depth);
  void write();
  void send();
  void receive(SharedDepth& depth);
  static MemoryLayout layout() { return MemoryLayout(kShape); }

  // Once for all inputs: to make them takes more time than all that is tried with them.
  static std::byte* own_memory() {
    static const Memory memory = make_memory(MemoryLayout(kShape).bytes());
    return memory.get();
  }
  static std::byte* far_memory() {
    static const Memory memory = make_memory(MemoryLayout(kShape).bytes());
    return memory.get();
  }

  Choices& choices_;
  host::OwnMemory own_{own_memory(), kShape};
  Channel channel_{own_,
                   0,
                   {.memory = far_memory(),
                    .shape = kShape,
                    .channel = kNumber,
                    .bell = &layout().bell(static_cast<const std::byte*>(far_memory()))}};
  uint32_t sent_ = 0;
  uint32_t received_ = 0;
};

/// The far end writes: somewhere, a descriptor, or how many frames it has taken.
void ChannelEnd::write() {
  switch (choices_.below(4)) {
    case 0:
      layout().consumed(far_memory(), kNumber).count.store(sent_ - choices_.below(20) + choices_.below(4));
      return;
    case 1: {
      const FrameDescriptor descriptor{.frame = static_cast<uint16_t>(choices_.below(kShape.frames + 1)),
                                       .length = static_cast<uint16_t>(choices_.below(8192)),
                                       .has_icrc = choices_.once_in(2),
                                       .sender = {static_cast<uint16_t>(choices_.bytes(2))},
                                       .sequence = received_ + choices_.below(3)};
      layout().ring(far_memory(), kNumber)[(received_ + choices_.below(2)) % host::kRingFrames].store(
          descriptor.pack());
      return;
    }
    case 2:
      layout().ring(far_memory(), kNumber)[received_ % host::kRingFrames].store(choices_.bytes(8));
      return;
    default:
      layout().consumed(far_memory(), kNumber).count.store(static_cast<uint32_t>(choices_.bytes(4)));
  }
}

void ChannelEnd::send() {
  if (!channel_.has_room()) return;
  const uint32_t frame = own_.take();
  require(frame < kShape.frames, "there is room, and no frame");
  channel_.send(frame, host::kFrameBytesMin + choices_.below(100), choices_.once_in(2));
  ++sent_;
}

void ChannelEnd::receive(SharedDepth& depth) {
  const bool pending = channel_.pending();
  const Channel::Frame frame = channel_.receive();
  if (frame.data == nullptr) return;
  require(pending, "a frame comes that was not pending");
  ++depth.frames;
  ++received_;
  const std::span all(far_memory(), layout().bytes());
  const std::byte* const first = layout().frame(static_cast<const std::byte*>(all.data()), 0);
  require(frame.length >= host::kFrameBytesMin && frame.length <= host::kFrameBytes,
          "the length of no frame");
  require(frame.data >= first && frame.data + frame.length <= all.data() + all.size(), "a frame outside");
  require((frame.data - first) % host::kFrameBytes == 0, "a frame between two");
  if (choices_.once_in(2)) channel_.release();
}

void ChannelEnd::run(SharedDepth& depth) {
  while (!choices_.over()) {
    switch (choices_.below(4)) {
      case 0:
        send();
        break;
      case 1:
        receive(depth);
        break;
      case 2:
        depth.reclaimed += channel_.reclaim() ? 1 : 0;
        break;
      default:
        write();
    }
    require(channel_.in_flight() <= host::kRingFrames, "more in flight than a ring has");
    require(own_.free_count() + channel_.in_flight() == kShape.frames, "a frame is lost, or given out twice");
  }
  depth.broken += channel_.broken() ? 1 : 0;
}

/// What the rows of a program that has ended say, which may be anything.
void check_connections(Choices& choices, SharedDepth& depth) {
  constexpr size_t kRows = 8;
  constexpr NumberBlock kNumbers{.first = 1u << host::kBlockBits, .count = 1u << host::kBlockBits};
  constexpr uint32_t kFirstId = 1u << (32 - host::kCommPrefixBits);
  std::array<host::ConnectionRow, kRows> rows{};
  for (host::ConnectionRow& row : rows) {
    auto* const at = reinterpret_cast<std::byte*>(&row);
    // A sound id, once in a while one that another row has.
    if (!choices.once_in(3)) row.local.store(kFirstId + choices.below(4));
    const size_t first = choices.once_in(2) ? 0 : sizeof row.local;
    for (size_t i = first; i < sizeof row && !choices.over(); ++i)
      at[i] = static_cast<std::byte>(choices.bytes(1));
  }
  std::set<uint32_t> ids;
  for (const host::OpenConnection& one : host::read_connections(rows, kNumbers)) {
    ++depth.connections;
    require(one.local != 0 && ids.insert(one.local).second, "two connections have one id");
    require(kNumbers.contains(host::owner_of_comm_id(one.local)), "a connection of another program");
    require(one.remote_qp.value <= QpNumber::kMask, "the number of no queue pair");
    require((one.link.bytes[0] & 1) == 0, "a connection to a group");
  }
}

/// A ring of captured frames that its writer fills by the rules at first, and then as the input says.
void check_capture(Choices& choices, SharedDepth& depth) {
  const capture::RingPreamble preamble{.pollers = 1 + choices.below(2),
                                       .slots = 1u << choices.below(5),
                                       .slot_bytes = 64 * (1 + choices.below(4))};
  const capture::RingLayout layout(preamble);
  if (!layout.sound()) return;
  const Memory memory = make_memory(layout.bytes());
  capture::RingWriter writer(memory.get(), layout, 0);
  capture::RingReader reader(memory.get(), layout, 0);
  std::array<std::byte, 512> frame{};
  std::array<std::byte, 100> room{};
  while (!choices.over()) {
    switch (choices.below(4)) {
      case 0: {
        const uint32_t bytes = choices.below(512);
        writer.put({.bytes = bytes}, std::span(frame).first(bytes));
        writer.publish();
        break;
      }
      case 1:
        memory.get()[4096 + choices.below(static_cast<uint32_t>(layout.bytes()) - 4096)] =
            static_cast<std::byte>(choices.bytes(1));
        break;
      case 2:
        layout.head(memory.get(), 0).written.store(choices.bytes(8));
        break;
      default:
        for (uint32_t read = 0; const auto record = reader.read(room); ++read) {
          ++depth.records;
          require(record->captured <= room.size() && record->captured <= record->bytes,
                  "more than was captured");
          require(read < preamble.slots, "more records than slots");
        }
    }
  }
}

/// A preamble that another process wrote.
void check_preamble(Choices& choices) {
  capture::RingPreamble preamble;
  preamble.pollers = static_cast<uint32_t>(choices.bytes(4));
  preamble.slots = static_cast<uint32_t>(choices.bytes(4));
  preamble.slot_bytes = static_cast<uint32_t>(choices.bytes(4));
  const capture::RingLayout layout(preamble);
  if (!layout.sound()) return;
  require(layout.bytes() <= capture::RingLayout::kHeadBytes + capture::kRingBytesMax + 4096,
          "a ring too large");
}

}  // namespace

void SharedDepth::operator+=(const SharedDepth& other) {
  messages += other.messages;
  frames += other.frames;
  reclaimed += other.reclaimed;
  broken += other.broken;
  connections += other.connections;
  records += other.records;
}

SharedDepth check_shared(std::span<const std::byte> input) {
  SharedDepth depth;
  Choices choices(input);
  switch (choices.below(5)) {
    case 0:
      check_message(choices, input.subspan(std::min<size_t>(1, input.size())), depth);
      break;
    case 1:
      ChannelEnd::check(choices, depth);
      break;
    case 2:
      check_connections(choices, depth);
      break;
    case 3:
      check_capture(choices, depth);
      break;
    default:
      check_preamble(choices);
  }
  return depth;
}

}  // namespace uroce::fuzz
