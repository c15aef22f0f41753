#include "stream_keys.h"

#include <signal.h>

#include <utility>

#include "copy/guarded_copy.h"
#include "qp/requester/local_operation.h"

namespace uroce::fuzz {

using queue::SendOperation;

namespace {

constexpr uint64_t kPage = 4096;
constexpr uint32_t kFastPages = 3;

/// Faults of guarded copies are theirs; all others go to the handler before, which reports them.
class FaultCatcher {
 public:
  FaultCatcher() {
    struct sigaction action = {};
    action.sa_sigaction = [](int signal, siginfo_t* info, void* context) {
      if (!copy::take_fault(signal, *info, context))
        sigaction(signal, signal == SIGBUS ? &bus : &segv, nullptr);
    };
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, &segv);
    sigaction(SIGBUS, &action, &bus);
  }

 private:
  static inline struct sigaction segv = {};
  static inline struct sigaction bus = {};
};

}  // namespace

StreamKeys::StreamKeys(mem::RegionTable& regions, mem::BusSpace& bus, DomainId domain)
    : regions_(regions),
      bus_(bus),
      domain_(domain),
      list_(bus, kFastPages),
      fast_(std::move(mem::FastRegion::make(regions, domain, kFastPages).value())),
      window1_(std::move(mem::Window::make(regions, domain, mem::RegionKind::kWindow1).value())),
      window2_(std::move(mem::Window::make(regions, domain, mem::RegionKind::kWindow2B).value())),
      fast_key_(fast_->first_key()),
      window1_key_(window1_->first_key()),
      window2_key_(window2_->first_key()) {
  static const FaultCatcher catcher;
  std::byte* const pages = room_.data() + (kPage - reinterpret_cast<uintptr_t>(room_.data()) % kPage);
  for (uint32_t i = 0; i < kFastPages; ++i) {
    buses_.push_back(
        bus.map(pages + (kFastPages - 1 - i) * kPage, kPage, mem::Direction::kBidirectional).value());
    list_.addresses()[i] = buses_[i];
  }
  parent_ = enter(room_.data(), kBytes, kParent);
  anew_ = enter(room_.data(), kBytes, kAll);
  gone_keys_ = enter(gone_.data(), gone_.size(), kAll);
}

StreamKeys::~StreamKeys() {
  window1_->end();
  window2_->end();
  static_cast<void>(fast_->end());
}

mem::RegionKeys StreamKeys::enter(std::byte* memory, uint64_t bytes, mem::Access access) {
  return regions_
      .register_user({.domain = domain_, .address = memory, .length = bytes, .iova = kIova, .access = access})
      .value();
}

MemoryKey StreamKeys::key(Kind kind) const {
  switch (kind) {
    case Kind::kFast:
      return fast_key_;
    case Kind::kWindow1:
      return window1_key_;
    case Kind::kWindow2:
      return window2_key_;
    case Kind::kAnew:
      return anew_.rkey;
    case Kind::kGone:
      return gone_keys_.rkey;
  }
  return {};
}

bool StreamKeys::prepare(SendOperation operation, Kind kind, uint8_t low, queue::SendQueue& queue,
                         queue::SendRequest& request) {
  if (operation == SendOperation::kLocalInvalidate) {
    request.invalidate = key(kind);
    return true;
  }
  if (operation == SendOperation::kRegister) {
    if (list_.post({kFastPages, 12, kFastOffset, kBytes}, kAll) != 0) return false;
    fast_key_ = MemoryKey::make(fast_key_.index(), low);
    queue.set_operation(request, qp::RegisterOperation{.region = fast_->first_key(),
                                                       .key = fast_key_,
                                                       .access = kAll,
                                                       .iova = iova(Kind::kFast),
                                                       .pages = &list_});
    return true;
  }
  const bool type1 = kind == Kind::kWindow1;
  MemoryKey& window_key = type1 ? window1_key_ : window2_key_;
  window_key = MemoryKey::make(window_key.index(), low);
  queue.set_operation(request, qp::BindOperation{.window = window_key,
                                                 .key = window_key,
                                                 .region = kind == Kind::kAnew ? anew_.lkey : parent_.lkey,
                                                 .access = mem::kRemoteWrite | mem::kRemoteRead,
                                                 .address = kIova,
                                                 .length = kBytes,
                                                 .type1 = type1});
  return true;
}

void StreamKeys::register_anew() {
  if (regions_.deregister(anew_.lkey).ok()) anew_ = enter(room_.data(), kBytes, kAll);
}

void StreamKeys::vanish() {
  if (std::exchange(there_, false)) gone_.vanish(uroce::testing::Vanishing::kNoAccess, kPage);
}

void StreamKeys::come_back() {
  if (!std::exchange(there_, true)) gone_.come_back();
}

}  // namespace uroce::fuzz
