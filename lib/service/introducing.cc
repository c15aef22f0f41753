// Programs that want a channel to each other.
//
// Decision: programs of different users share no memory, because a program's memory shows all of its frames.
// Cost: the service copies their frames twice.
#include <fmt/format.h>

#include <cerrno>

#include "service/service.h"

namespace uroce::service {

using host::MessageType;

namespace {

/// Channel 0 is the service's.
bool may_be_channel(uint32_t channel) { return channel > 0 && channel < host::kProgramMemory.channels; }

}  // namespace

Status Service::introduce(ClientProcess& program, const Message& message) {
  if (!may_be_channel(message.channel)) {
    violate(program, "a channel that there cannot be");
    return {};
  }
  ClientProcess* const other = find(program.device->numbers().owner_of({message.number & QpNumber::kMask}));
  if (other == nullptr || !other->attached())
    return Error{ESRCH, fmt::format("no program has queue pair number {:#x}", message.number)};
  if (other == &program) return Error{EINVAL, "the queue pair number is the program's own"};
  // Its memory would show each of the two what the other one sends to third programs.
  if (other->peer.uid != program.peer.uid)
    return Error{EPERM, "programs of different users reach each other by way of the service"};
  // Of two programs that ask for each other the first one's question is answered: otherwise each would have
  // two channels, and they might not choose the same one. The second hears of the first's before this
  // refusal.
  // Numbers of one program may be asked for one after the other, too, and the later question may have been
  // sent before the answer to the earlier one was read.
  if (introductions_.under_way(other->id, program.id) || introductions_.under_way(program.id, other->id))
    return Error{EALREADY, "the two programs are being introduced"};
  inform(*other);
  // What it has not read yet may be about a program that had the same numbers.
  const bool reads = other->outbox.waiting() < kRelayedUnreadMax && other->gone.empty();
  if (!reads || program.introductions >= kAwaitedMax)
    return Error{EAGAIN, "the other program has yet to answer"};
  const Introduction& introduction = introductions_.begin(program.id, other->id, message.request, now_);
  ++program.introductions;
  const NumberBlock block = program.attachment->block();
  other->outbox.post({.message = {.type = MessageType::kIntroduction,
                                  .request = introduction.number,
                                  .number = block.first,
                                  .count = block.count,
                                  .channel = message.channel},
                      .descriptors = {program.memory},
                      .about = program.id});
  return {};
}

void Service::found(ClientProcess& program, const Message& message) {
  if (message.error == 0 && !may_be_channel(message.channel))
    return violate(program, "a channel that there cannot be");
  // The program that asked may have ended, or waited long enough.
  Introduction* const introduction = introductions_.unanswered(message.request, program.id);
  if (introduction == nullptr) return;
  if (message.error != 0) {
    const auto is_it = [&](const Introduction& i) { return &i == introduction; };
    return fail(*introductions_.take_if(is_it), ECONNREFUSED, "the other program has no channel left");
  }
  ClientProcess* const asked = find(introduction->from);
  if (asked == nullptr) return;
  introduction->answered = true;
  const NumberBlock block = program.attachment->block();
  asked->outbox.post({.message = {.type = MessageType::kIntroduced,
                                  .request = introduction->request,
                                  .number = block.first,
                                  .count = block.count,
                                  .channel = message.channel},
                      .descriptors = {program.memory},
                      .about = program.id});
}

void Service::confirm(ClientProcess& program, const Message& message) {
  const auto confirmed = introductions_.take_if([&](const Introduction& i) {
    return i.answered && i.from == program.id && i.request == message.request;
  });
  if (confirmed) --program.introductions;
}

/// One that was answered is only over.
void Service::fail(const Introduction& introduction, int error, std::string_view text) {
  ClientProcess* const program = find(introduction.from);
  if (program == nullptr) return;
  --program->introductions;
  if (introduction.answered) return;
  Message done{.type = MessageType::kDone, .request = introduction.request, .error = error};
  host::set_text(done.text, text);
  post(*program, done);
}

void Service::end_introductions(ClientProcess& program) {
  const uint32_t id = program.id;
  while (introductions_.take_if([&](const Introduction& i) { return i.from == id; })) continue;
  while (const auto lost = introductions_.take_if([&](const Introduction& i) { return i.to == id; }))
    fail(*lost, ESRCH, "the other program has ended");
}

}  // namespace uroce::service
