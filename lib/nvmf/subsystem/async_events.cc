#include "nvmf/subsystem/async_events.h"

#include <array>

namespace uroce::nvmf {

namespace {

struct NoticeRow {
  Notice notice;
  uint8_t information;
  LogPage page;
};

constexpr std::array kNotices = {
    NoticeRow{Notice::kNamespaceAttribute, 0x00, LogPage::kChangedNamespaces},
    NoticeRow{Notice::kAnaChange, 0x03, LogPage::kAna},
    NoticeRow{Notice::kDiscoveryChange, 0xF0, LogPage::kDiscovery},
};
constexpr uint32_t kNoticeType = 2;

}  // namespace

void AsyncEvents::configure(uint32_t notices) {
  const std::lock_guard guard(mutex_);
  configured_ = notices;
}

uint32_t AsyncEvents::configuration() {
  const std::lock_guard guard(mutex_);
  return configured_;
}

void AsyncEvents::raise(Notice notice) {
  const std::lock_guard guard(mutex_);
  const uint32_t bit = notice_bit(notice);
  if ((configured_ & bit) == 0 || (told_ & bit) != 0) return;
  waiting_.store(waiting_.load(std::memory_order_relaxed) | bit,
                 std::memory_order_relaxed);  // a hint, see there
}

void AsyncEvents::raise_namespace(uint32_t nsid) {
  {
    const std::lock_guard guard(mutex_);
    changed_.set(nsid);
  }
  raise(Notice::kNamespaceAttribute);
}

std::optional<uint32_t> AsyncEvents::take() {
  const std::lock_guard guard(mutex_);
  const uint32_t waiting = waiting_.load(std::memory_order_relaxed);
  for (const NoticeRow& row : kNotices) {
    const uint32_t bit = notice_bit(row.notice);
    if ((waiting & bit) == 0) continue;
    waiting_.store(waiting & ~bit, std::memory_order_relaxed);
    told_ |= bit;
    return kNoticeType | uint32_t{row.information} << 8 | static_cast<uint32_t>(row.page) << 16;
  }
  return std::nullopt;
}

void AsyncEvents::acknowledge(LogPage page) {
  const std::lock_guard guard(mutex_);
  for (const NoticeRow& row : kNotices) {
    if (row.page != page) continue;
    told_ &= ~notice_bit(row.notice);
    waiting_.store(waiting_.load(std::memory_order_relaxed) & ~notice_bit(row.notice),
                   std::memory_order_relaxed);
  }
}

std::bitset<kNsidMax + 1> AsyncEvents::changed_namespaces(bool keep) {
  const std::lock_guard guard(mutex_);
  const std::bitset<kNsidMax + 1> changed = changed_;
  if (!keep) changed_.reset();
  return changed;
}

void AsyncEvents::reset() {
  const std::lock_guard guard(mutex_);
  configured_ = 0;
  told_ = 0;
  waiting_.store(0, std::memory_order_relaxed);
  changed_.reset();
}

}  // namespace uroce::nvmf
