#include "tests/sim/key_traffic.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <utility>

#include "qp/requester/local_operation.h"

namespace uroce::sim {

using queue::Completion;
using queue::CompletionOpcode;
using queue::CompletionStatus;
using queue::SendOperation;

namespace {

constexpr mem::Access kBoth = mem::kRemoteWrite | mem::kRemoteRead;
constexpr mem::RegionKind kWindows[] = {mem::RegionKind::kWindow1, mem::RegionKind::kWindow2A,
                                        mem::RegionKind::kWindow2B};

/// wr_id of what is part of another step; nothing follows from its success.
constexpr uint64_t kNoStep = UINT64_MAX;

}  // namespace

KeyTraffic::KeyTraffic(Endpoint& user, Endpoint& owner, const Options& options)
    : user_(user),
      owner_(owner),
      options_(options),
      random_(options.seed),
      memory_(new(std::align_val_t{kPage}) std::byte[kPages * kPage]()),
      owned_(kPages * kPage),
      order_(kPages),
      list_(owner.host.device().bus_space(), kPages) {
  engine::Device& device = owner.host.device();
  region_ = std::move(mem::FastRegion::make(device.regions(), owner.domain, kPages).value());
  for (size_t i = 0; i < windows_.size(); ++i)
    windows_[i] = std::move(mem::Window::make(device.regions(), owner.domain, kWindows[i]).value());
  bus_address_ =
      device.bus_space().map(memory_.get(), kPages * kPage, mem::Direction::kBidirectional).value();
  std::iota(order_.begin(), order_.end(), 0U);
  region_key_ = region_->first_key();
  overwrite();
}

std::string KeyTraffic::close() {
  if (region_ == nullptr) return {};
  check_owned();
  mem::BusSpace& bus = owner_.host.device().bus_space();
  if (step_ == Step::kDone && list_.posted()) fail("a page list was not given back");
  for (const auto& window : windows_) window->end();
  if (const Status status = region_->end(); !status) fail(status.error().message);
  region_.reset();
  const mem::BusRange range{bus_address_, kPages * kPage};
  if (const Status status = bus.unmap({&range, 1}, mem::Direction::kBidirectional); !status)
    fail(status.error().message);
  for (const Arena::Slot& slot : lent_) static_cast<void>(user_.arena.give_back(slot));
  return failure_;
}

void KeyTraffic::fail(const std::string& what) {
  if (failure_.empty()) failure_ = "keys: " + what;
}

void KeyTraffic::act() {
  poll_user();
  poll_owner();
  check_owned();
  if (done()) return;
  if (step_ == Step::kOwned && random_.chance(1, 2)) bind();
  if (step_ == Step::kBreaking && !taken_back_ && random_.chance(1, 3)) post_break();
  if (step_ == Step::kBreaking && taken_back_ && user_outstanding_ == 0 && key_ == MemoryKey{})
    step_ = Step::kDone;
}

queue::SendRequest& KeyTraffic::reserve(Endpoint& endpoint, SendOperation operation) {
  queue::SendRequest& request = *endpoint.sends().reserve();
  request.operation = operation;
  request.wr_id = round_;
  request.signaled = true;
  return request;
}

/// A new key, other pages in another order, another address; and mostly a window over a part of it.
void KeyTraffic::bind() {
  for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random_.below(i)]);
  const auto pages = static_cast<uint32_t>(1 + random_.below(kPages));
  start_ = random_.below(kPage);
  uint64_t length = pages * kPage - start_ - random_.below(kPage - start_);
  iova_ = address_ = random_.next() >> 1;
  skip_ = 0;
  const uint64_t kind = random_.below(1 + windows_.size());
  window_ = kind == 0 ? nullptr : windows_[kind - 1].get();
  post_registration(pages, length);
  if (window_ != nullptr) {
    skip_ = random_.below(length);
    length = 1 + random_.below(length - skip_);
    post_bind(length);
  }
  model_.resize(length);
  for (uint64_t i = 0; i < length; ++i) model_[i] = at(i);
  step_ = Step::kBinding;
  owner_.publish_sends();
}

void KeyTraffic::post_registration(uint32_t pages, uint64_t length) {
  const mem::Access access = mem::kLocalWrite | (window_ == nullptr ? kBoth : mem::kWindowBind);
  region_key_ = MemoryKey::make(region_->first_key().index(), static_cast<uint8_t>(region_key_.key() + 1));
  key_ = region_key_;
  for (uint32_t i = 0; i < pages; ++i) list_.addresses()[i] = bus_address_ + order_[i] * kPage;
  if (list_.post({pages, 12, start_, length}, access) != 0) return fail("pages that cannot be posted");
  queue::SendRequest& request = reserve(owner_, SendOperation::kRegister);
  if (window_ != nullptr) request.wr_id = kNoStep;
  owner_.sends().set_operation(
      request, qp::RegisterOperation{region_->first_key(), region_key_, access, iova_, &list_});
}

/// A window of type 2 may begin at 0, one of type 1 may have no bytes.
void KeyTraffic::post_bind(uint64_t length) {
  const mem::Access from = !type1() && random_.chance(1, 2) ? mem::kZeroBased : mem::Access{};
  key_ = MemoryKey::make(window_->first_key().index(), static_cast<uint8_t>(random_.next()));
  address_ = from == mem::kZeroBased ? 0 : iova_ + skip_;
  owner_.sends().set_operation(reserve(owner_, SendOperation::kBindWindow),
                               qp::BindOperation{.window = window_->first_key(),
                                                 .key = key_,
                                                 .region = region_key_,
                                                 .access = kBoth | from,
                                                 .address = iova_ + skip_,
                                                 .length = length,
                                                 .type1 = type1()});
}

/// The user writes, also in long messages; then another thread takes the key away.
void KeyTraffic::use() {
  step_ = Step::kUsed;
  const bool last = ++round_ == options_.rounds;
  const uint64_t writes = random_.below(5);
  for (uint64_t i = 0; i < writes; ++i)
    post_write(static_cast<uint32_t>(random_.chance(1, 2) ? 100 : 30'000));
  if (last && options_.break_in) {
    post_write(30'000);
    step_ = Step::kBreaking;
  } else {
    post_end();
  }
}

void KeyTraffic::post_write(uint32_t bytes_max) {
  const uint64_t begin = random_.below(model_.size());
  const auto length =
      static_cast<uint32_t>(1 + random_.below(std::min<uint64_t>(bytes_max, model_.size() - begin)));
  const auto slot = user_.arena.lend(length, random_);
  if (!slot) return;
  lent_.push_back(*slot);
  std::vector<std::byte> bytes(length);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random_.next());
  user_.arena.write(*slot, bytes);
  std::ranges::copy(bytes, model_.begin() + static_cast<ptrdiff_t>(begin));
  queue::SendRequest& request = reserve(user_, SendOperation::kWrite);
  request.remote_address = address_ + begin;
  request.rkey = key_;
  request.length = length;
  request.segments = 1;
  user_.sends().segments(request)[0] = user_.arena.segment(*slot);
  ++user_outstanding_;
  user_.publish_sends();
}

void KeyTraffic::post_end() {
  // A receive that holds nothing.
  owner_.receives().reserve()->wr_id = round_;
  owner_.publish_receives();
  const bool by_user = !type1() && random_.chance(1, 2);
  queue::SendRequest& request =
      reserve(user_, by_user ? SendOperation::kSendInvalidate : SendOperation::kSend);
  request.invalidate = key_;
  ++user_outstanding_;
  user_.publish_sends();
}

/// After what the user did.
void KeyTraffic::post_take_back() {
  const auto length = static_cast<uint32_t>(1 + random_.below(model_.size()));
  if (!type1() && random_.chance(1, 2)) read_from_ = user_.arena.lend(length, random_);
  if (!read_from_) return post_invalidation();
  for (std::byte& byte : std::span(model_).first(length)) byte = static_cast<std::byte>(random_.next());
  user_.arena.write(*read_from_, std::span(model_).first(length));
  queue::SendRequest& request = reserve(owner_, SendOperation::kReadInvalidate);
  request.remote_address = user_.arena.iova(*read_from_);
  request.rkey = user_.arena.keys().rkey;
  request.invalidate = key_;
  request.length = length;
  request.segments = 1;
  owner_.sends().segments(request)[0] = {iova_ + skip_, length, region_key_};
  owner_.publish_sends();
}

void KeyTraffic::post_invalidation() {
  if (type1()) {
    post_bind(0);
  } else {
    reserve(owner_, SendOperation::kLocalInvalidate).invalidate = key_;
  }
  owner_.publish_sends();
}

/// In the middle of what the user does.
void KeyTraffic::post_break() {
  taken_back_ = true;
  post_invalidation();
}

void KeyTraffic::poll_user() {
  std::array<Completion, 8> completions;
  const size_t count = user_.poll_sends(completions);
  for (const Completion& completion : std::span(completions).first(count)) {
    --user_outstanding_;
    ++completed_;
    if (completion.status != CompletionStatus::kSuccess && step_ != Step::kBreaking)
      fail("a request of the user failed with status " + std::to_string(static_cast<int>(completion.status)));
  }
  if (user_outstanding_ > 0) return;
  for (const Arena::Slot& slot : lent_) {
    if (const std::string wrong = user_.arena.give_back(slot); !wrong.empty()) fail(wrong);
  }
  lent_.clear();
}

void KeyTraffic::poll_owner() {
  std::array<Completion, 8> completions;
  size_t count = owner_.poll_sends(completions);
  for (size_t i = 0; i < count; ++i) handle_owner(completions[i]);
  count = owner_.poll_receives(completions);
  for (size_t i = 0; i < count; ++i) handle_owner(completions[i]);
}

void KeyTraffic::handle_owner(const Completion& completion) {
  const bool success = completion.status == CompletionStatus::kSuccess;
  // What ends the key may be flushed when the refusal of a WRITE comes first; nothing before it may fail.
  if (!success && step_ != Step::kBreaking)
    return fail("the owner's status " + std::to_string(static_cast<int>(completion.status)));
  if (success && completion.wr_id == kNoStep) return;
  switch (completion.opcode) {
    case CompletionOpcode::kRegister:
      return use();
    case CompletionOpcode::kBindWindow:
      if (step_ == Step::kBinding) return use();
      [[fallthrough]];
    case CompletionOpcode::kLocalInvalidate:
      if (step_ != Step::kBreaking) return take_back();
      key_ = {};
      if (success) return overwrite();
      std::copy_n(memory_.get(), owned_.size(), owned_.begin());  // with the queue pair everything has ended
      return;
    case CompletionOpcode::kReceive:
      if (completion.has_invalidated) {
        if (completion.immediate != key_.value) fail("another key was invalidated");
        return take_back();
      }
      return post_take_back();
    case CompletionOpcode::kRead:
      if (const std::string wrong = user_.arena.give_back(*std::exchange(read_from_, std::nullopt));
          !wrong.empty())
        fail(wrong);
      return take_back();
    default:
      return fail("an opcode that was not posted");
  }
}

/// The key is gone, so everything that the user did must be there.
void KeyTraffic::take_back() {
  for (uint64_t i = 0; i < model_.size(); ++i) {
    if (at(i) != model_[i]) return fail("byte " + std::to_string(i) + " is not what was written");
  }
  overwrite();
  step_ = round_ == options_.rounds ? Step::kDone : Step::kOwned;
  if (window_ == nullptr || step_ == Step::kDone) return;
  // What it was over, before it is bound to other pages.
  queue::SendRequest& request = reserve(owner_, SendOperation::kLocalInvalidate);
  request.wr_id = kNoStep;
  request.invalidate = region_key_;
  owner_.publish_sends();
}

void KeyTraffic::overwrite() {
  const uint64_t salt = random_.next();
  for (size_t i = 0; i < owned_.size(); ++i) memory_[i] = owned_[i] = static_cast<std::byte>(salt + i * 13);
}

void KeyTraffic::check_owned() {
  const bool owned =
      step_ == Step::kOwned || step_ == Step::kDone || (step_ == Step::kBreaking && key_ == MemoryKey{});
  if (!owned) return;
  if (!std::equal(owned_.begin(), owned_.end(), memory_.get()))
    fail("a byte was moved under a key that is no more");
}

}  // namespace uroce::sim
