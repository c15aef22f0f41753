// How programs reach each other: introductions by the service, channels, and what of other programs is mapped
// here.
//
// Frames for a program that is not known yet wait at the port, 128 of them at most, until the service has
// introduced it.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "drivers/port/host/attachment.h"

namespace uroce::drivers {
namespace {

using host::Message;
using host::MessageType;
using Kind = PeerChange::Kind;

constexpr bool overlap(NumberBlock one, NumberBlock other) {
  return one.contains({other.first}) || other.contains({one.first});
}

}  // namespace

std::optional<uint32_t> Attachment::take_channel() {
  const auto free = std::ranges::find(channels_, false);
  if (free == channels_.end()) return std::nullopt;
  *free = true;
  return static_cast<uint32_t>(free - channels_.begin());
}

/// The poller wants to reach programs. Each question gets an answer, which may be that there is none.
void Attachment::take_questions() {
  while (const auto asked = exchange_.take_question()) {
    // The poller has asked before it heard of it, and sends what waits when it does.
    if (is_reached(*asked)) continue;
    const auto channel = connected_ ? take_channel() : std::nullopt;
    if (!channel) {
      tell_poller({.kind = Kind::kAbsent, .asked = *asked});
      continue;
    }
    Message message{.type = MessageType::kIntroduce, .number = asked->value, .channel = *channel};
    {
      const std::lock_guard guard(mutex_);
      message.request = next_request_++;
    }
    introductions_.emplace(message.request, Introduction{*asked, *channel});
    if (const Status sent = ControlSocket(socket_.get()).send(message); !sent)
      on_refused_introduction({.request = message.request, .error = sent.error().code});
  }
}

/// Peers that the poller does not use any more: their memory is unmapped here, and their channels are free.
void Attachment::take_retired() {
  while (const std::unique_ptr<Peer> peer = exchange_.take_retired()) {
    if (peer->number != 0)
      channels_[peer->number] = false;
    else
      poller_has_service_ = false;
  }
}

/// A peer whose end of the channel has number `number` here. Null: what it says, or its memory, is unsound.
std::unique_ptr<Peer> Attachment::make_peer(const Message& message, uint32_t number, int descriptor) {
  const NumberBlock block{message.number, message.count};
  const bool sound = message.channel < host::kProgramMemory.channels && host::is_block_of_program(block) &&
                     !overlap(block, numbers_);
  if (!sound) return nullptr;
  Result<host::Mapping> memory = host::map_sealed_memory(descriptor, host::kProgramMemory);
  if (!memory) return nullptr;
  auto peer = std::make_unique<Peer>();
  peer->block = block;
  peer->number = number;
  peer->memory = std::move(*memory);
  const host::MemoryLayout layout(host::kProgramMemory);
  const std::byte* const data = peer->memory.data();
  peer->channel = std::make_unique<host::Channel>(*own_, number,
                                                  host::Channel::FarEnd{.memory = data,
                                                                        .shape = host::kProgramMemory,
                                                                        .channel = message.channel,
                                                                        .bell = &layout.bell(data)});
  return peer;
}

/// Another program wants to reach this one. When both ask at once the service refuses the later question
/// (EALREADY), which this answers.
void Attachment::on_introduction(host::Datagram& received) {
  const Message& message = received.message;
  Message answer{.type = MessageType::kFound, .request = message.request, .error = ENOSPC};
  const auto channel = take_channel();
  std::unique_ptr<Peer> peer = channel ? make_peer(message, *channel, received.descriptor[0].get()) : nullptr;
  if (peer != nullptr) {
    answer.error = 0;
    answer.channel = *channel;
    note_reached(std::move(peer), {});
  } else {
    if (channel) channels_[*channel] = false;
    give_up_awaited();
  }
  tell(answer);
}

void Attachment::on_introduced(host::Datagram& received) {
  const Message& message = received.message;
  const auto found = introductions_.find(message.request);
  if (found == introductions_.end()) return;
  const Introduction introduction = found->second;
  // Until then the service refuses questions for other numbers of the same program: those that were sent
  // before this was read would get the program a second channel.
  tell({.type = MessageType::kConfirm, .request = message.request});
  std::unique_ptr<Peer> peer = make_peer(message, introduction.channel, received.descriptor[0].get());
  if (peer == nullptr || !peer->block.contains(introduction.asked))
    return on_refused_introduction({.request = message.request, .error = EPROTO});
  introductions_.erase(found);
  note_reached(std::move(peer), introduction.asked);
}

bool Attachment::is_reached(QpNumber number) const {
  return std::ranges::any_of(reached_, [&](NumberBlock block) { return block.contains(number); });
}

/// A program is never reached twice: frames that were given to one channel may be under way in it for as long
/// as the program lives. One that had some of these numbers has ended while the service was away.
void Attachment::note_reached(std::unique_ptr<Peer> peer, QpNumber asked) {
  const NumberBlock block = peer->block;
  for (const NumberBlock before : std::vector(reached_))
    if (overlap(before, block)) on_gone(before);
  reached_.push_back(block);
  std::erase_if(awaited_, [&](QpNumber number) { return block.contains(number); });
  tell_poller({.kind = Kind::kReached, .asked = asked, .block = block, .peer = std::move(peer)});
}

/// An introduction has failed that others may have waited for: what waits for these is lost, and the next
/// frame asks anew.
void Attachment::give_up_awaited() {
  for (const QpNumber asked : awaited_) tell_poller({.kind = Kind::kAbsent, .asked = asked});
  awaited_.clear();
}

/// EPERM: the two may not share memory, and the service passes their frames on.
void Attachment::on_refused_introduction(const Message& answer) {
  const Introduction introduction = introductions_.extract(answer.request).mapped();
  channels_[introduction.channel] = false;
  if (answer.error == EALREADY) {
    // Another number of the same program was asked for before, or by that program.
    if (!is_reached(introduction.asked)) awaited_.push_back(introduction.asked);
    return;
  }
  tell_poller({.kind = answer.error == EPERM ? Kind::kRelayed : Kind::kAbsent, .asked = introduction.asked});
  give_up_awaited();
}

void Attachment::on_gone(NumberBlock block) {
  std::erase(reached_, block);
  give_up_awaited();
  tell_poller({.kind = Kind::kGone, .block = block});
}

}  // namespace uroce::drivers
