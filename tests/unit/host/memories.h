#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "host/channel.h"

namespace uroce::host {

/// Memory of one process, which the tests let another one read.
class TestMemory {
 public:
  explicit TestMemory(MemoryShape shape)
      : bytes_(MemoryLayout(shape).bytes()),
        data_(static_cast<std::byte*>(std::aligned_alloc(4096, bytes_)), std::free) {
    std::memset(data_.get(), 0, bytes_);
    own_ = std::make_unique<OwnMemory>(data_.get(), shape);
  }

  [[nodiscard]] OwnMemory& own() { return *own_; }
  [[nodiscard]] std::byte* data() { return data_.get(); }
  [[nodiscard]] size_t bytes() const { return bytes_; }
  /// What the other end of `channel` sees.
  [[nodiscard]] Channel::FarEnd seen(uint32_t channel) {
    return {.memory = data_.get(),
            .shape = own_->layout().shape(),
            .channel = channel,
            .bell = &own_->layout().bell(static_cast<const std::byte*>(data_.get()))};
  }

 private:
  const size_t bytes_;
  const std::unique_ptr<std::byte, decltype(&std::free)> data_;
  std::unique_ptr<OwnMemory> own_;
};

/// Sends `text` as a frame of at least kFrameBytesMin bytes; false: there is no room.
inline bool send(TestMemory& from, Channel& channel, const std::string& text) {
  if (!channel.has_room()) return false;
  const uint32_t frame = from.own().take();
  if (frame == OwnMemory::kNoFrame) return false;
  std::memset(from.own().frame(frame), 0, kFrameBytesMin);
  std::memcpy(from.own().frame(frame), text.data(), text.size());
  channel.send(frame, std::max<uint32_t>(static_cast<uint32_t>(text.size()), kFrameBytesMin), true);
  return true;
}

/// The next frame as text; empty: there is none.
inline std::string receive(Channel& channel) {
  const Channel::Frame frame = channel.receive();
  if (frame.data == nullptr) return {};
  std::string text(reinterpret_cast<const char*>(frame.data), frame.length);
  return text.substr(0, text.find('\0'));
}

}  // namespace uroce::host
