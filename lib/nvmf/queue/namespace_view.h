#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "nvmf/subsystem/exclusion.h"
#include "nvmf/subsystem/namespace.h"

namespace uroce::nvmf {

class Subsystem;
struct Request;

/// One queue's way to a namespace. The thread of the queue.
struct NamespaceWay {
  explicit NamespaceWay(std::shared_ptr<Namespace> of) : subject(std::move(of)), memory(subject->memory()) {}

  std::shared_ptr<Namespace> subject;
  std::span<std::byte> memory;                  // of the device, if it simply lies there
  std::unique_ptr<block::Queue> blocks;         // opened with the first command
  std::shared_ptr<NamespaceCounters> counters;  // likewise
  Exclusion::Member member{};                   // once opened
  uint32_t users = 0;                           // requests that are not released yet
  uint32_t under_way = 0;                       // block requests
  uint32_t writes = 0;                          // of these, such that change blocks
  Request* exclusive = nullptr;                 // of a fused pair: waits for the exclusion, or has it
};

/// The namespaces as one queue sees them. It follows the subsystem when refresh() is called: what was
/// detached gets no new command, and is let go of when its last request has been released. The thread of the
/// queue.
class NamespaceView {
 public:
  NamespaceView(Subsystem& subsystem, uint32_t depth, std::span<const std::span<std::byte>> buffers);
  ~NamespaceView();
  NamespaceView(const NamespaceView&) = delete;
  NamespaceView& operator=(const NamespaceView&) = delete;

  /// One load, if nothing has changed.
  void refresh();
  /// nullptr: nothing is attached there. `nsid` is at most kNsidMax.
  [[nodiscard]] NamespaceWay* find(uint32_t nsid) const { return ways_[nsid].get(); }
  /// False: the device gave no queue.
  bool open(NamespaceWay& way);
  /// To be polled; also those that are leaving.
  [[nodiscard]] std::span<NamespaceWay* const> opened() const { return opened_; }

 private:
  void follow();
  void let_go();
  void close(NamespaceWay& way);

  Subsystem& subsystem_;
  const uint32_t depth_;
  const std::span<const std::span<std::byte>> buffers_;
  uint64_t generation_ = 0;
  std::array<std::unique_ptr<NamespaceWay>, kNsidMax + 1> ways_;
  std::vector<std::unique_ptr<NamespaceWay>> leaving_;
  std::vector<NamespaceWay*> opened_;
};

}  // namespace uroce::nvmf
