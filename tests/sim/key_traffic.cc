#include "tests/sim/key_traffic.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <utility>

#include "qp/local_operation.h"

namespace uroce::sim {

using queue::Completion;
using queue::CompletionOpcode;
using queue::CompletionStatus;
using queue::SendOperation;

namespace {

constexpr mem::Access kAccess = mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead;

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
  bus_address_ =
      device.bus_space().map(memory_.get(), kPages * kPage, mem::Direction::kBidirectional).value();
  std::iota(order_.begin(), order_.end(), 0U);
  key_ = region_->first_key();
  overwrite();
}

std::string KeyTraffic::close() {
  if (region_ == nullptr) return {};
  check_owned();
  mem::BusSpace& bus = owner_.host.device().bus_space();
  if (step_ == Step::kDone && list_.posted()) fail("a page list was not given back");
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

/// A new key, other pages in another order, another address.
void KeyTraffic::bind() {
  const uint32_t previous = key_.value;
  key_ = MemoryKey::make(region_->first_key().index(), static_cast<uint8_t>(previous + 1));
  for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random_.below(i)]);
  const auto pages = static_cast<uint32_t>(1 + random_.below(kPages));
  start_ = random_.below(kPage);
  const uint64_t length = pages * kPage - start_ - random_.below(kPage - start_);
  iova_ = random_.next() >> 1;
  for (uint32_t i = 0; i < pages; ++i) list_.addresses()[i] = bus_address_ + order_[i] * kPage;
  if (list_.post({pages, 12, start_, length}, kAccess) != 0) return fail("pages that cannot be posted");
  model_.resize(length);
  for (uint64_t i = 0; i < length; ++i) model_[i] = at(i);
  queue::SendRequest& request = reserve(owner_, SendOperation::kRegister);
  owner_.sends().set_operation(request,
                               qp::RegisterOperation{region_->first_key(), key_, kAccess, iova_, &list_});
  step_ = Step::kBinding;
  owner_.publish_sends();
}

/// The user writes, also in long messages; then somebody takes the key away.
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
  request.remote_address = iova_ + begin;
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
  const bool by_user = random_.chance(1, 2);
  queue::SendRequest& request =
      reserve(user_, by_user ? SendOperation::kSendInvalidate : SendOperation::kSend);
  request.invalidate = key_;
  ++user_outstanding_;
  user_.publish_sends();
}

/// After what the user did.
void KeyTraffic::post_take_back() {
  const auto length = static_cast<uint32_t>(1 + random_.below(model_.size()));
  if (random_.chance(1, 2)) read_from_ = user_.arena.lend(length, random_);
  if (!read_from_) {
    reserve(owner_, SendOperation::kLocalInvalidate).invalidate = key_;
    return owner_.publish_sends();
  }
  for (std::byte& byte : std::span(model_).first(length)) byte = static_cast<std::byte>(random_.next());
  user_.arena.write(*read_from_, std::span(model_).first(length));
  queue::SendRequest& request = reserve(owner_, SendOperation::kReadInvalidate);
  request.remote_address = user_.arena.iova(*read_from_);
  request.rkey = user_.arena.keys().rkey;
  request.invalidate = key_;
  request.length = length;
  request.segments = 1;
  owner_.sends().segments(request)[0] = {iova_, length, key_};
  owner_.publish_sends();
}

/// In the middle of what the user does.
void KeyTraffic::post_break() {
  taken_back_ = true;
  reserve(owner_, SendOperation::kLocalInvalidate).invalidate = key_;
  owner_.publish_sends();
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
  // The LOCAL_INV may be flushed when the refusal of a WRITE comes first; nothing before it may fail.
  if (!success && step_ != Step::kBreaking)
    return fail("the owner's status " + std::to_string(static_cast<int>(completion.status)));
  switch (completion.opcode) {
    case CompletionOpcode::kRegister:
      return use();
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
    case CompletionOpcode::kLocalInvalidate:
      if (step_ != Step::kBreaking) return take_back();
      key_ = {};
      if (success) return overwrite();
      std::copy_n(memory_.get(), owned_.size(), owned_.begin());  // with the queue pair everything has ended
      return;
    default:
      return fail("an opcode that nobody posted");
  }
}

/// The key is gone, so everything that the user did must be there.
void KeyTraffic::take_back() {
  for (uint64_t i = 0; i < model_.size(); ++i) {
    if (at(i) != model_[i]) return fail("byte " + std::to_string(i) + " is not what was written");
  }
  overwrite();
  step_ = round_ == options_.rounds ? Step::kDone : Step::kOwned;
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
