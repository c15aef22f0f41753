#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "port/tx_batch.h"

namespace uroce::testing {

/// A transmit batch on buffers of its own: what a module sent can be taken out of it as bytes.
class Outbox {
 public:
  explicit Outbox(size_t buffers = port::TxBatch::kFramesMax, uint32_t bytes = 512)
      : queue_(buffers, bytes), batch_(queue_) {}

  port::TxBatch& batch() { return batch_; }

  /// Frames sent since the last call.
  std::vector<std::vector<std::byte>> take() {
    std::vector<std::vector<std::byte>> frames;
    for (const port::TxFrame& frame : batch_.frames()) {
      frames.emplace_back(frame.data, frame.data + frame.length);
      queue_.free({&frame, 1});
    }
    batch_.consume(frames.size());
    return frames;
  }

 private:
  class Queue final : public port::PortQueue {
   public:
    Queue(size_t buffers, uint32_t bytes) : bytes_(bytes), memory_(buffers, std::vector<std::byte>(bytes)) {
      for (auto& buffer : memory_) free_.push_back(buffer.data());
    }
    uint16_t receive(std::span<port::RxFrame>) override { return 0; }
    void release(std::span<const port::RxFrame>) override {}
    uint16_t allocate(std::span<port::TxFrame> frames) override {
      uint16_t count = 0;
      for (; count < frames.size() && !free_.empty(); ++count) {
        frames[count] = {.data = free_.back(), .capacity = bytes_, .length = 0, .handle = free_.back()};
        free_.pop_back();
      }
      return count;
    }
    uint16_t transmit(std::span<const port::TxFrame>) override { return 0; }
    void free(std::span<const port::TxFrame> frames) override {
      for (const port::TxFrame& frame : frames) free_.push_back(frame.data);
    }
    port::RxFrame loop(const port::TxFrame&) override { return {}; }

   private:
    const uint32_t bytes_;
    std::vector<std::vector<std::byte>> memory_;
    std::vector<std::byte*> free_;
  };

  Queue queue_;
  port::TxBatch batch_;
};

}  // namespace uroce::testing
