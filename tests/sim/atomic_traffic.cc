#include "tests/sim/atomic_traffic.h"

#include <fmt/format.h>

namespace uroce::sim {

using queue::CompletionStatus;
using queue::SendOperation;

namespace {

constexpr mem::Access kRights = mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead | mem::kRemoteAtomic;

/// By its own addresses.
mem::RegionKeys register_at(Endpoint& endpoint, void* memory, uint64_t bytes) {
  return endpoint.host.device()
      .regions()
      .register_user({.domain = endpoint.domain,
                      .address = static_cast<std::byte*>(memory),
                      .length = bytes,
                      .iova = reinterpret_cast<uint64_t>(memory),
                      .access = kRights})
      .value();
}

}  // namespace

AtomicTraffic::AtomicTraffic(Endpoint& user, Endpoint& owner, SharedCounter& counter, const Options& options)
    : user_(user),
      owner_(owner),
      counter_(counter),
      options_(options),
      random_(options.seed),
      counter_keys_(register_at(owner, &counter.value, sizeof(counter.value))),
      other_keys_(register_at(owner, other_.data(), other_.size())),
      result_keys_(register_at(user, results_.data(), sizeof(results_))),
      scratch_keys_(register_at(user, scratch_.data(), scratch_.size())) {}

void AtomicTraffic::close() {
  if (!open_) return;
  open_ = false;
  for (const mem::RegionKeys& keys : {counter_keys_, other_keys_})
    static_cast<void>(owner_.host.device().regions().deregister(keys.lkey));
  for (const mem::RegionKeys& keys : {result_keys_, scratch_keys_})
    static_cast<void>(user_.host.device().regions().deregister(keys.lkey));
}

void AtomicTraffic::act() {
  std::array<queue::Completion, 8> completions;
  const size_t count = user_.poll_sends(completions);
  for (size_t i = 0; i < count && failure_.empty(); ++i) take(completions[i]);
  while (failure_.empty() && posted_ < options_.operations && random_.chance(2, 3) &&
         outstanding_.size() < Endpoint::kDepth) {
    post();
  }
}

void AtomicTraffic::post() {
  queue::SendQueue& sends = user_.sends();
  queue::SendRequest& request = *sends.reserve();
  Posted posted{.operation = SendOperation::kFetchAdd, .slot = posted_ % results_.size()};
  const uint64_t kind = random_.below(5);
  if (kind == 0) posted.operation = SendOperation::kCompareSwap;
  if (kind == 1) posted.operation = random_.chance(1, 2) ? SendOperation::kRead : SendOperation::kWrite;
  request.wr_id = posted_++;
  request.operation = posted.operation;
  request.signaled = true;
  request.fence = random_.chance(1, 8);
  request.segments = 1;
  if (is_atomic(posted.operation)) {
    posted.compare = seen_;
    const bool swap = posted.operation == SendOperation::kCompareSwap;
    request.length = queue::kAtomicBytes;
    request.remote_address = reinterpret_cast<uint64_t>(&counter_.value);
    request.rkey = counter_keys_.rkey;
    sends.segments(request)[0] = {reinterpret_cast<uint64_t>(&results_[posted.slot]), queue::kAtomicBytes,
                                  result_keys_.lkey};
    sends.operands(request) = {swap ? seen_ + 1 : 1, swap ? seen_ : 0};
  } else {
    request.length = static_cast<uint32_t>(random_.below(kOtherBytes));
    request.remote_address = reinterpret_cast<uint64_t>(other_.data());
    request.rkey = other_keys_.rkey;
    sends.segments(request)[0] = {reinterpret_cast<uint64_t>(scratch_.data()), request.length,
                                  scratch_keys_.lkey};
  }
  outstanding_.push_back(posted);
  user_.publish_sends();
}

void AtomicTraffic::take(const queue::Completion& completion) {
  if (outstanding_.empty() || completion.status != CompletionStatus::kSuccess ||
      completion.wr_id != posted_ - outstanding_.size()) {
    failure_ = fmt::format("atomics: completion of {} with status {}", completion.wr_id,
                           static_cast<int>(completion.status));
    return;
  }
  const Posted posted = outstanding_.front();
  outstanding_.pop_front();
  ++completed_;
  if (!is_atomic(posted.operation)) return;
  const uint64_t original = results_[posted.slot];
  seen_ = original;
  if (posted.operation == SendOperation::kCompareSwap && original != posted.compare) return;
  seen_ = original + 1;
  if (!counter_.found.insert(original).second)
    failure_ = fmt::format("atomics: two of them have found {}", original);
}

}  // namespace uroce::sim
