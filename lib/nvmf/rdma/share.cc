#include "nvmf/rdma/share.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace uroce::nvmf {
namespace {

constexpr uint32_t kFirstCompletions = 4096;

Error error_of(const RdmaDevice& device, const char* what) {
  const int code = errno != 0 ? errno : ENOMEM;
  return {code, std::string(device.context().device->name) + ": " + what + ": " + std::strerror(code)};
}

}  // namespace

Result<std::unique_ptr<RdmaShare>> RdmaShare::open(RdmaDevice& device, const RdmaOptions& options) {
  std::unique_ptr<RdmaShare> share(new RdmaShare(device));
  if (const Status status = share->make_completions(); !status) return status.error();
  auto buffers = RdmaBuffers::allocate(device.domain(), options);
  if (!buffers) return buffers.error();
  share->buffers_ = std::move(*buffers);
  if (options.shared_receives && device.attributes().max_srq > 0) {
    if (const Status status = share->make_shared_receives(options); !status) return status.error();
  }
  return share;
}

Status RdmaShare::make_completions() {
  channel_.reset(ibv_create_comp_channel(&device_.context()));
  if (channel_ == nullptr) return error_of(device_, "no completion channel");
  // Read when there is something, never waited for.
  if (fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK) != 0)
    return error_of(device_, "completion channel");
  const int entries = std::min(static_cast<int>(kFirstCompletions), device_.attributes().max_cqe);
  completions_.reset(ibv_create_cq(&device_.context(), entries, this, channel_.get(), 0));
  if (completions_ == nullptr) return error_of(device_, "no completion queue");
  capacity_.store(static_cast<uint32_t>(completions_->cqe), std::memory_order_relaxed);  // see is_past()
  return {};
}

Status RdmaShare::make_shared_receives(const RdmaOptions& options) {
  const uint32_t entries =
      std::min(options.shared_receive_entries, static_cast<uint32_t>(device_.attributes().max_srq_wr));
  if (!reserve(entries)) return Error{ENOMEM, "no room in the completion queue for shared receives"};
  auto receives = RdmaReceives::allocate(device_.domain(), entries, options.in_capsule_bytes);
  if (!receives) return receives.error();
  ibv_srq_init_attr wanted{};
  wanted.attr = {.max_wr = entries, .max_sge = 2, .srq_limit = 0};
  shared_.reset(ibv_create_srq(&device_.domain(), &wanted));
  if (shared_ == nullptr) return error_of(device_, "no shared receive queue");
  receives_ = std::move(*receives);
  return receives_->first_post(*shared_) ? Status{}
                                         : Status(Error{EIO, "shared receive queue: refused buffers"});
}

RdmaBudget& RdmaShare::hold_budget(const RdmaAddress& host) {
  RdmaBudget& budget = host_budgets_.try_emplace(host, false).first->second;
  ++budget.queues;
  return budget;
}

void RdmaShare::drop_budget(const RdmaAddress& host) {
  const auto found = host_budgets_.find(host);
  if (--found->second.queues == 0) host_budgets_.erase(found);
}

bool RdmaShare::reserve(uint32_t entries) {
  const uint32_t wanted = reserved_ + entries;
  if (wanted > static_cast<uint32_t>(device_.attributes().max_cqe)) return false;
  if (wanted > static_cast<uint32_t>(completions_->cqe)) {
    const uint32_t larger = std::min(std::max(wanted, 2 * static_cast<uint32_t>(completions_->cqe)),
                                     static_cast<uint32_t>(device_.attributes().max_cqe));
    if (ibv_resize_cq(completions_.get(), static_cast<int>(larger)) != 0) return false;
    capacity_.store(static_cast<uint32_t>(completions_->cqe), std::memory_order_relaxed);  // see is_past()
  }
  reserved_ = wanted;
  return true;
}

}  // namespace uroce::nvmf
