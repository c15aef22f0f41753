#include "stream_property.h"

#include <array>

#include "qp/attributes/operations.h"
#include "stream_peer.h"

namespace uroce::fuzz {

namespace {

using queue::SendOperation;

void post_something(Choices& choices, StreamTarget& target) {
  constexpr std::array kAll = {
      SendOperation::kSend,           SendOperation::kSendImm,       SendOperation::kWrite,
      SendOperation::kWriteImm,       SendOperation::kRead,          SendOperation::kFetchAdd,
      SendOperation::kCompareSwap,    SendOperation::kAtomicWrite,   SendOperation::kFlush,
      SendOperation::kReadInvalidate, SendOperation::kSendInvalidate};
  queue::SendRequest request;
  request.operation = kAll[choices.below(kAll.size())];
  if (!qp::has_operation(target.options.type, request.operation)) return;
  const bool word = queue::is_atomic(request.operation) || request.operation == SendOperation::kAtomicWrite;
  request.length = word ? 8 : choices.below(1500);
  if (request.operation == SendOperation::kFlush) request.length = 0;
  request.signaled = choices.once_in(2);
  request.fence = choices.once_in(8);
  request.invalidate = target.keys.key(StreamKeys::kind(choices.below(StreamKeys::kKinds)));
  // Reads into memory that may not be written fail, sometimes, and so does what has its data where none are
  // any more.
  const StreamTarget::Data data = choices.once_in(16)   ? StreamTarget::Data::kSource
                                  : choices.once_in(16) ? StreamTarget::Data::kGone
                                                        : StreamTarget::Data::kTarget;
  target.post(request, data, choices.below(0x800));
}

/// What changes the meaning of keys.
void change_keys(Choices& choices, StreamTarget& target) {
  constexpr std::array kLocal = {SendOperation::kLocalInvalidate, SendOperation::kRegister,
                                 SendOperation::kBindWindow};
  switch (choices.below(8)) {
    case 0:
      target.end_burst();
      return target.keys.register_anew();
    case 1:
      return target.keys.vanish();
    case 2:
      return target.keys.come_back();
    case 3:
      return target.begin_other_turn();
    default: {
      const SendOperation operation = kLocal[choices.below(kLocal.size())];
      if (!qp::has_operation(target.options.type, operation)) return;
      target.post_local(operation, StreamKeys::kind(choices.below(StreamKeys::kKinds)),
                        static_cast<uint8_t>(choices.bytes(1)));
    }
  }
}

void act(Choices& choices, StreamTarget& target, StreamPeer& peer) {
  switch (choices.below(17)) {
    case 16:
      return change_keys(choices, target);
    case 0:
    case 1:
      return post_something(choices, target);
    case 2:
    case 3:
      target.post_receive(choices.below(1501));
      return;
    case 4:
      return target.advance(microseconds(choices.below(3000)));
    case 5:
    case 6:
      return target.pump();
    case 7:
    case 8:
    case 9:
    case 10:
    case 11:
      return peer.send_request(choices);
    case 12:
    case 13:
    case 14:
      return peer.send_answer(choices);
    default:
      if (choices.below(32) == 0) return target.drain();
      if (target.state() != qp::State::kErr && choices.below(128) != 0) return;
      target.fail();
      peer.restart();
  }
}

}  // namespace

Depth check_stream(std::span<const std::byte> input) {
  Choices choices(input);
  constexpr std::array kTypes = {qp::Type::kRc, qp::Type::kUc, qp::Type::kUd, qp::Type::kXrcSend,
                                 qp::Type::kXrcReceive};
  const StreamTarget::Options options{.type = kTypes[choices.below(kTypes.size())],
                                      .shared_receives = choices.once_in(4),
                                      .credits = choices.once_in(2),
                                      .signal_all = choices.once_in(2)};
  StreamTarget* there = nullptr;
  StreamPeer peer(there);
  StreamTarget target(options, [&](std::span<const std::byte> frame) { peer.observe(frame); });
  there = &target;
  // Also where numbers wrap.
  if (choices.once_in(2)) target.first_sent = target.first_expected = Psn(0xFFFFF0);
  if (choices.once_in(2)) target.keys.vanish();
  peer.restart();
  while (!choices.over()) act(choices, target, peer);
  target.finish();
  return target.depth();
}

}  // namespace uroce::fuzz
