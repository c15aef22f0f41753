#pragma once

#include <atomic>
#include <bitset>
#include <cstdint>
#include <mutex>
#include <optional>

#include "nvmf/format/log_page.h"
#include "nvmf/subsystem/options.h"

namespace uroce::nvmf {

/// What a controller tells its host without being asked (NVMe 1.4, section 5.2, type "notice").
enum class Notice : uint8_t { kNamespaceAttribute, kAnaChange, kDiscoveryChange };

/// A notice's bit in Asynchronous Event Configuration and in OAES.
constexpr uint32_t notice_bit(Notice notice) {
  switch (notice) {
    case Notice::kNamespaceAttribute:
      return 1u << 8;
    case Notice::kAnaChange:
      return 1u << 11;
    case Notice::kDiscoveryChange:
      return 1u << 31;
  }
  return 0;
}

/// The notices that one controller has for its host. Each is told once, and then not again before the host
/// has read the log page that belongs to it. Any thread.
class AsyncEvents {
 public:
  void configure(uint32_t notices);
  [[nodiscard]] uint32_t configuration();

  void raise(Notice notice);
  /// Raises a change of the namespace, which goes into the changed namespace list, too.
  void raise_namespace(uint32_t nsid);

  /// There is something to take(): may be asked all the time.
  [[nodiscard]] bool waiting() const {
    return waiting_.load(std::memory_order_relaxed) != 0;  // only a hint: take() locks
  }
  /// Dword 0 of the completion that tells it.
  std::optional<uint32_t> take();
  /// The host has read this log page, and wants to hear of it again.
  void acknowledge(LogPage page);
  /// Bit n: namespace n. `keep`: the host does not acknowledge yet.
  std::bitset<kNsidMax + 1> changed_namespaces(bool keep);
  void reset();

 private:
  std::mutex mutex_;
  uint32_t configured_ = 0;
  uint32_t told_ = 0;  // and the log page was not read since
  std::atomic<uint32_t> waiting_{0};
  std::bitset<kNsidMax + 1> changed_;
};

}  // namespace uroce::nvmf
