#include "tests/judge/requester.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "client/pattern.h"
#include "tests/judge/outcome.h"

namespace uroce::judge {
namespace {

constexpr ibv_wr_opcode request_opcode(Kind kind) {
  constexpr std::array kOpcodes = {IBV_WR_SEND,
                                   IBV_WR_SEND_WITH_IMM,
                                   IBV_WR_SEND_WITH_INV,
                                   IBV_WR_RDMA_WRITE,
                                   IBV_WR_RDMA_WRITE_WITH_IMM,
                                   IBV_WR_RDMA_READ,
                                   IBV_WR_ATOMIC_FETCH_AND_ADD,
                                   IBV_WR_ATOMIC_CMP_AND_SWP,
                                   IBV_WR_BIND_MW,
                                   IBV_WR_LOCAL_INV};
  return kOpcodes[static_cast<size_t>(kind)];
}

constexpr ibv_wc_opcode completion_opcode(Kind kind) {
  constexpr std::array kOpcodes = {IBV_WC_SEND,       IBV_WC_SEND,      IBV_WC_SEND,      IBV_WC_RDMA_WRITE,
                                   IBV_WC_RDMA_WRITE, IBV_WC_RDMA_READ, IBV_WC_FETCH_ADD, IBV_WC_COMP_SWAP,
                                   IBV_WC_BIND_MW,    IBV_WC_LOCAL_INV};
  return kOpcodes[static_cast<size_t>(kind)];
}

}  // namespace

int cut(Arena& arena, Range slot, uint32_t pieces, std::span<ibv_sge> into) {
  int count = 0;
  while (slot.length > 0) {
    const uint32_t left = pieces - static_cast<uint32_t>(count);
    const uint32_t length = left > 1 ? slot.length / left : slot.length;
    if (length > 0 || left == 1) {
      into[static_cast<size_t>(count)] = {arena.address() + slot.offset, length, arena.region().lkey};
      slot = {slot.offset + length, slot.length - length};
      ++count;
    } else {
      --pieces;
    }
  }
  return count;
}

Requester::Requester(End& end, Windows& windows, const List& list, uint64_t tag)
    : end_(end),
      windows_(windows),
      list_(list),
      tag_(tag),
      model_(list.target_seed),
      random_(list.pace_seed),
      batch_(kDepthMax) {}

void Requester::step() {
  const size_t room = list_.depth - (posted_ - completed_);
  const size_t left = std::min(room, list_.operations.size() - posted_);
  if (left == 0) return;
  const size_t wanted = std::min<size_t>(left, 1 + random_.below(list_.batch_max));
  size_t count = 0;
  for (bool binds = false; count < wanted && !binds; ++count) {
    prepare(batch_[count], posted_ + count);
    if (count > 0) batch_[count - 1].request.next = &batch_[count].request;
    binds = list_.operations[posted_ + count].kind == Kind::kBind;
  }
  end_.post_send(batch_.front().request);
  windows_.posted();
  for (size_t i = 0; i < count; ++i) {
    const Operation& operation = list_.operations[posted_ + i];
    if (operation.inlined) end_.local().poison(operation.slot, operation.length);
  }
  posted_ += count;
}

void Requester::prepare(Request& prepared, size_t index) {
  const Operation& operation = list_.operations[index];
  ibv_send_wr& request = prepared.request;
  request = {};
  if (operation.kind == Kind::kBind) request = windows_.bind_spare();
  if (operation.kind == Kind::kLocalInvalidate) request = windows_.invalidate_spare();
  request.wr_id = tag_ + index;
  request.opcode = request_opcode(operation.kind);
  unsigned flags = 0;
  if (operation.signaled) flags |= IBV_SEND_SIGNALED;
  if (operation.fence) flags |= IBV_SEND_FENCE;
  if (operation.inlined) flags |= IBV_SEND_INLINE;
  request.send_flags = flags;
  if (is_local(operation.kind)) return;
  request.sg_list = prepared.segments.data();
  request.num_sge =
      cut(end_.local(), {operation.slot, operation.length}, operation.segments, prepared.segments);
  if (!brings_data(operation.kind)) {
    client::fill_pattern(end_.local().bytes(operation.slot, operation.length), operation.seed);
  }
  // Opaque to the verbs, in network order.
  if (operation.kind != Kind::kSendInvalidate) request.imm_data = operation.immediate;
  set_key(request, operation);
}

void Requester::set_key(ibv_send_wr& request, const Operation& operation) {
  const uint32_t key = operation.window == kNoWindow ? peer_.key : peer_.window_keys.at(operation.window);
  if (is_atomic(operation.kind)) {
    request.wr.atomic.remote_addr = peer_.address + operation.target;
    request.wr.atomic.rkey = key;
    const bool swap = operation.kind == Kind::kCompareSwap;
    request.wr.atomic.compare_add = swap ? operation.compare : operation.operand;
    request.wr.atomic.swap = swap ? operation.operand : 0;
  } else if (operation.kind == Kind::kSendInvalidate) {
    request.invalidate_rkey = key;
  } else if (!is_send(operation.kind)) {
    request.wr.rdma.remote_addr = peer_.address + operation.target;
    request.wr.rdma.rkey = key;
  }
}

void Requester::completed(const ibv_wc& completion) {
  size_t index = completed_;
  while (index < posted_ && !list_.operations[index].signaled) ++index;
  if (index == posted_ || completion.wr_id != tag_ + index) {
    throw Wrong(fmt::format("a completion of request {:#x} instead of {}", completion.wr_id,
                            index == posted_ ? "none" : named(index)));
  }
  if (completion.opcode != completion_opcode(list_.operations[index].kind)) {
    throw Wrong(
        fmt::format("{}: its completion has opcode {}", named(index), static_cast<int>(completion.opcode)));
  }
  while (completed_ <= index) complete_one(completed_++);
}

void Requester::complete_one(size_t index) {
  const Operation& operation = list_.operations[index];
  if (is_atomic(operation.kind)) {
    uint64_t brought = 0;
    std::memcpy(&brought, end_.local().bytes(operation.slot, operation.length).data(), sizeof(brought));
    const uint64_t expected = model_.perform(operation);
    if (brought != expected) {
      throw Wrong(
          fmt::format("{}: the old value is {:#018x} instead of {:#018x}", named(index), brought, expected));
    }
  } else {
    model_.perform(operation);
    if (operation.kind == Kind::kRead) check(index);
  }
  // The verbs do not need the bytes any more, and may not touch them.
  if (!is_local(operation.kind)) end_.local().poison(operation.slot, operation.length);
}

void Requester::check(size_t index) {
  const Operation& operation = list_.operations[index];
  // Requests behind a fence begin when the READ is complete.
  size_t end = index + 1;
  while (end < posted_ && !list_.operations[end].fence) ++end;
  const auto brought = end_.local().bytes(operation.slot, operation.length);
  const std::span<const Operation> later(list_.operations.begin() + static_cast<ptrdiff_t>(index) + 1,
                                         list_.operations.begin() + static_cast<ptrdiff_t>(end));
  const auto wrong = first_wrong(brought, operation.target, model_, later);
  if (!wrong) return;
  throw Wrong(fmt::format("{}: byte {} of {} is 0x{:02x} instead of 0x{:02x}{}", named(index), *wrong,
                          operation.length, static_cast<unsigned>(brought[*wrong]),
                          static_cast<unsigned>(model_.bytes()[operation.target + *wrong]),
                          brought[*wrong] == client::kPoison ? " (as if nothing had come)" : ""));
}

void Requester::finish() {
  end_.local().expect_untouched(list_.arena_bytes, "bytes of requests that are complete");
}

std::string Requester::named(size_t index) const {
  const Operation& operation = list_.operations[index];
  return fmt::format("request {} of {} ({}, {} bytes, wr_id {:#x})", index + 1, list_.operations.size(),
                     name_of(operation.kind), operation.length, tag_ + index);
}

std::string Requester::progress() const {
  if (is_done()) return fmt::format("all {} requests are complete", list_.operations.size());
  return fmt::format("{} requests posted, {} complete, the next is {}", posted_, completed_,
                     named(completed_));
}

}  // namespace uroce::judge
