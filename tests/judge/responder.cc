#include "tests/judge/responder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "client/pattern.h"
#include "tests/judge/outcome.h"
#include "tests/judge/requester.h"

namespace uroce::judge {
namespace {

// rxe gives programs the kernel's own IB_WC_WITH_INVALIDATE, which to them is IBV_WC_IP_CSUM_OK.
constexpr unsigned kWithInvalidateOfRxe = 1 << 2;
constexpr unsigned kWithInvalidate = IBV_WC_WITH_INV | kWithInvalidateOfRxe;

}  // namespace

Responder::Responder(End& end, Windows& windows, const List& list, uint64_t tag)
    : end_(end),
      windows_(windows),
      list_(list),
      tag_(kReceiveBit | tag),
      model_(list.target_seed),
      random_(list.pace_seed),
      seen_(kTargetBytes) {
  for (size_t i = 0; i < list.operations.size(); ++i) {
    if (takes_receive(list.operations[i].kind)) receives_.push_back(i);
  }
  client::fill_pattern(end_.target().bytes(), list.target_seed);
}

void Responder::step() {
  const size_t room = list_.receives_max - (posted_ - completed_);
  const size_t left = std::min(room, receives_.size() - posted_);
  if (left == 0 || random_.chance(1, 4)) return;
  for (size_t count = 1 + random_.below(left); count > 0; --count, ++posted_) {
    const Operation& operation = list_.operations[receives_[posted_]];
    std::array<ibv_sge, kSegmentsMax> segments;
    ibv_recv_wr request{};
    request.wr_id = tag_ + posted_;
    request.sg_list = segments.data();
    request.num_sge = cut(end_.received(), {operation.receive_slot, operation.receive_length},
                          operation.segments, segments);
    end_.post_receive(request);
  }
}

void Responder::completed(const ibv_wc& completion) {
  if (completed_ == posted_ || completion.wr_id != tag_ + completed_) {
    throw Wrong(fmt::format("a completion of receive {:#x} instead of {}", completion.wr_id,
                            completed_ == posted_ ? "none" : named(completed_)));
  }
  const size_t index = receives_[completed_];
  const Operation& operation = list_.operations[index];
  check_completion(completion, operation);
  if (operation.kind == Kind::kSendInvalidate) windows_.ended(operation.window);
  check_message(operation);
  const size_t begin = performed_;
  while (performed_ <= index) model_.perform(list_.operations[performed_++]);
  check_target(begin, performed_);
  ++completed_;
}

void Responder::check_completion(const ibv_wc& completion, const Operation& operation) {
  const std::string name = named(completed_);
  const bool write = is_write(operation.kind);
  if (completion.opcode != (write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV)) {
    throw Wrong(fmt::format("{}: its completion has opcode {}", name, static_cast<int>(completion.opcode)));
  }
  if (completion.byte_len != operation.length) {
    throw Wrong(fmt::format("{}: its completion says {} bytes", name, completion.byte_len));
  }
  const bool immediate = write || operation.kind == Kind::kSendImmediate;
  if (((completion.wc_flags & IBV_WC_WITH_IMM) != 0) != immediate ||
      (immediate && completion.imm_data != operation.immediate)) {
    throw Wrong(fmt::format("{}: flags {:#x}, immediate {:#x} instead of {:#x}", name,
                            static_cast<unsigned>(completion.wc_flags), completion.imm_data,
                            operation.immediate));
  }
  const bool invalidates = operation.kind == Kind::kSendInvalidate;
  if (((completion.wc_flags & kWithInvalidate) != 0) != invalidates ||
      (invalidates && completion.invalidated_rkey != windows_.key(operation.window))) {
    throw Wrong(fmt::format("{}: flags {:#x}, invalidated key {:#x}", name,
                            static_cast<unsigned>(completion.wc_flags), completion.invalidated_rkey));
  }
}

void Responder::check_message(const Operation& operation) {
  if (!is_send(operation.kind)) return;
  const auto message = end_.received().bytes(operation.receive_slot, operation.length);
  if (const auto at = client::first_difference(message, operation.seed)) {
    throw Wrong(fmt::format("{}: byte {} is 0x{:02x}, which was not sent", named(completed_), *at,
                            static_cast<unsigned>(message[*at])));
  }
  end_.received().poison(operation.receive_slot, operation.length);
}

/// What the requests from `begin` to `end` have written is there, or what later ones write.
void Responder::check_target(size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    const Operation& operation = list_.operations[i];
    if (!is_write(operation.kind) && !is_atomic(operation.kind)) continue;
    const auto now = end_.target().bytes(operation.target, operation.length);
    const std::span<std::byte> seen(seen_.data(), operation.length);
    std::ranges::copy(now, seen.begin());
    const std::span<const Operation> later(list_.operations.begin() + static_cast<ptrdiff_t>(end),
                                           list_.operations.end());
    if (const auto at = first_wrong(seen, operation.target, model_, later)) {
      throw Wrong(fmt::format("{}: byte {} of {} of request {} ({}) before it is not there",
                              named(completed_), *at, operation.length, i + 1, name_of(operation.kind)));
    }
  }
}

void Responder::finish() {
  while (performed_ < list_.operations.size()) model_.perform(list_.operations[performed_++]);
  if (const auto at = first_wrong(end_.target().bytes(), 0, model_, {})) {
    throw Wrong(fmt::format("the target when all is done: byte {} is 0x{:02x} instead of 0x{:02x}", *at,
                            static_cast<unsigned>(end_.target().bytes()[*at]),
                            static_cast<unsigned>(model_.bytes()[*at])));
  }
  end_.received().expect_untouched(list_.receive_bytes, "bytes of receives that are complete");
}

std::string Responder::named(size_t receive) const {
  const size_t index = receives_[receive];
  const Operation& operation = list_.operations[index];
  return fmt::format("receive {} of {} (for request {}, {}, {} bytes)", receive + 1, receives_.size(),
                     index + 1, name_of(operation.kind), operation.length);
}

std::string Responder::progress() const {
  if (is_done()) return fmt::format("all {} receives are complete", receives_.size());
  return fmt::format("{} receives posted, {} complete, the next is {}", posted_, completed_,
                     named(completed_));
}

}  // namespace uroce::judge
