// Decision: queues see namespaces through a view, and Target::collect() closes devices. Removal takes no lock
// on the I/O path. Cost: the program has to call it.
#include "nvmf/queue/namespace_view.h"

#include "base/values/contract.h"
#include "nvmf/subsystem/subsystem.h"

namespace uroce::nvmf {

NamespaceView::NamespaceView(Subsystem& subsystem, uint32_t depth,
                             std::span<const std::span<std::byte>> buffers)
    : subsystem_(subsystem), depth_(depth), buffers_(buffers) {
  refresh();
}

NamespaceView::~NamespaceView() {
  for (NamespaceWay* const way : std::vector(opened_)) close(*way);
}

void NamespaceView::refresh() {
  if (generation_ != subsystem_.generation()) follow();
  if (!leaving_.empty()) let_go();
}

void NamespaceView::follow() {
  // Read before the namespaces: what comes in between is seen the next time.
  generation_ = subsystem_.generation();
  std::array<std::shared_ptr<Namespace>, kNsidMax + 1> attached;
  for (auto& one : subsystem_.namespaces()) attached[one->nsid()] = one;
  for (uint32_t nsid = 1; nsid <= kNsidMax; ++nsid) {
    auto& way = ways_[nsid];
    if (way != nullptr && way->subject != attached[nsid]) leaving_.push_back(std::move(way));
    if (way == nullptr && attached[nsid] != nullptr) way = std::make_unique<NamespaceWay>(attached[nsid]);
  }
}

void NamespaceView::let_go() {
  std::erase_if(leaving_, [this](const std::unique_ptr<NamespaceWay>& way) {
    if (way->users > 0) return false;
    if (way->blocks != nullptr) close(*way);
    return true;
  });
}

bool NamespaceView::open(NamespaceWay& way) {
  auto opened = way.subject->open_queue(depth_, buffers_);
  if (!opened) return false;
  way.blocks = std::move(*opened);
  if (way.counters == nullptr) way.counters = way.subject->statistics().open();
  way.subject->exclusion().join(way.member);
  opened_.push_back(&way);
  return true;
}

void NamespaceView::close(NamespaceWay& way) {
  UROCE_ASSERT(way.under_way == 0 && way.exclusive == nullptr);
  way.subject->exclusion().leave(way.member);
  way.blocks.reset();
  std::erase(opened_, &way);
}

}  // namespace uroce::nvmf
