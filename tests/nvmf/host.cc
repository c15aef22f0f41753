#include "tests/nvmf/host.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace uroce::testing {

namespace {

void promise(bool kept, const char* what) {
  if (!kept) throw std::logic_error(what);
}

}  // namespace

HostQueue::HostQueue(nvmf::Target& target, nvmf::QueueOptions options)
    : queue_(std::make_unique<nvmf::Queue>(target, options)), slots_(options.entries) {
  for (Slot& slot : slots_) {
    slot.request.user = &slot;
    free_.push_back(&slot);
  }
}

HostQueue::~HostQueue() {
  release_kept();
  drain();
}

HostQueue::Slot& HostQueue::slot_of(uint16_t cid) {
  const auto found = std::ranges::find_if(
      slots_, [cid](const Slot& slot) { return slot.with_transport && slot.request.command.cid == cid; });
  promise(found != slots_.end(), "the test names no command that the transport has");
  return *found;
}

std::vector<uint16_t> HostQueue::with_transport() const {
  std::vector<uint16_t> cids;
  for (const Slot& slot : slots_)
    if (slot.with_transport) cids.push_back(slot.request.command.cid);
  return cids;
}

uint16_t HostQueue::receive(nvmf::Command command, Bytes data) {
  promise(!free_.empty(), "the test sends more than there are slots");
  Slot& slot = *free_.back();
  free_.pop_back();
  command.cid = next_cid_++;
  slot.request.command = command;
  slot.to_target = std::move(data);
  queue_->receive(slot.request, now);
  slot.with_transport = !slot.request.ended;
  return command.cid;
}

/// Pieces of 4096 bytes that do not lie one after the other.
void HostQueue::stage(Slot& slot) {
  constexpr size_t kPiece = 4096;
  nvmf::Request& request = slot.request;
  if (request.direction == nvmf::Direction::kNone || request.in_place) return;
  promise(request.data_bytes > 0, "a direction, and no data");
  const size_t pieces = (request.data_bytes + kPiece - 1) / kPiece;
  slot.buffer.assign(pieces * kPiece, std::byte{0xEE});
  slot.pieces.clear();
  for (size_t i = 0; i < pieces; ++i) {
    const size_t bytes = std::min(kPiece, request.data_bytes - i * kPiece);
    slot.pieces.push_back({slot.buffer.data() + (pieces - 1 - i) * kPiece, bytes});
    // What the test leaves out comes as it lies there.
    const size_t from = i * kPiece;
    if (request.direction != nvmf::Direction::kFromHost || from >= slot.to_target.size()) continue;
    std::memcpy(slot.pieces[i].iov_base, slot.to_target.data() + from,
                std::min(bytes, slot.to_target.size() - from));
  }
  request.data = slot.pieces;
}

void HostQueue::execute(uint16_t cid) {
  Slot& slot = slot_of(cid);
  slot.with_transport = false;
  stage(slot);
  queue_->execute(slot.request, now);
}

void HostQueue::fail(uint16_t cid, nvmf::CommandStatus status) {
  Slot& slot = slot_of(cid);
  slot.with_transport = false;
  queue_->fail(slot.request, status);
}

uint16_t HostQueue::send(nvmf::Command command, Bytes data) {
  const uint16_t cid = receive(command, std::move(data));
  const std::vector<uint16_t> waiting = with_transport();
  if (std::ranges::find(waiting, cid) != waiting.end()) execute(cid);
  return cid;
}

Answer HostQueue::take(Slot& slot) {
  const nvmf::Request& request = slot.request;
  const uint16_t status = request.completion.status;
  promise(request.completion.cid == request.command.cid, "an answer to another command");
  promise(request.completion.sq_id == 0, "a reserved field is not zero");
  Answer answer{.code = static_cast<nvmf::StatusCode>((status >> 9 & 7) << 8 | (status >> 1 & 0xFF)),
                .do_not_retry = (status & 0x8000) != 0,
                .result = request.completion.result,
                .cid = request.completion.cid,
                .sq_head = request.completion.sq_head};
  if (!request.sends_data()) return answer;
  for (const iovec& piece : request.data) {
    const auto* const from = static_cast<const std::byte*>(piece.iov_base);
    answer.data.insert(answer.data.end(), from, from + piece.iov_len);
  }
  promise(answer.data.size() == request.data_bytes, "data of another length than was said");
  return answer;
}

void HostQueue::release(Slot& slot) {
  queue_->release(slot.request);
  free_.push_back(&slot);
}

void HostQueue::release_kept() {
  for (Slot* const slot : kept_) release(*slot);
  kept_.clear();
}

std::vector<Answer> HostQueue::poll() {
  // Fewer at once than may have ended.
  std::array<nvmf::Request*, 4> ended{};
  std::vector<Answer> answers;
  const size_t count = queue_->poll(now, ended);
  for (size_t i = 0; i < count; ++i) {
    Slot& slot = *static_cast<Slot*>(ended[i]->user);
    answers.push_back(take(slot));
    if (keep_)
      kept_.push_back(&slot);
    else
      release(slot);
  }
  return answers;
}

std::optional<Answer> HostQueue::answer(uint16_t cid) {
  constexpr int kPollsMax = 500;
  for (int polls = 0; polls < kPollsMax; ++polls) {
    const auto found = std::ranges::find(answers_, cid, &Answer::cid);
    if (found != answers_.end()) {
      Answer answer = std::move(*found);
      answers_.erase(found);
      return answer;
    }
    for (Answer& answer : poll()) answers_.push_back(std::move(answer));
  }
  return std::nullopt;
}

Answer HostQueue::run(nvmf::Command command, Bytes data) {
  auto got = answer(send(command, std::move(data)));
  promise(got.has_value(), "a command is not answered");
  return std::move(*got);
}

void HostQueue::disconnect() {
  if (std::exchange(disconnected_, true)) return;
  queue_->disconnected(now);
  for (Slot& slot : slots_)
    if (std::exchange(slot.with_transport, false)) release(slot);
}

bool HostQueue::drain(uint32_t polls) {
  disconnect();
  for (; polls > 0 && !queue_->drained(); --polls) poll();
  return queue_->drained();
}

nvmf::ConnectData connect_data(const std::string& subsystem, const std::string& host, uint16_t controller) {
  nvmf::ConnectData data{};
  std::memset(data.host_id, 0x42, sizeof(data.host_id));
  data.controller_id = controller;
  subsystem.copy(data.subsystem_nqn, sizeof(data.subsystem_nqn));
  host.copy(data.host_nqn, sizeof(data.host_nqn));
  return data;
}

Bytes bytes_of(const void* data, size_t size) {
  const auto* const from = static_cast<const std::byte*>(data);
  return {from, from + size};
}

Bytes pattern(size_t count, uint8_t seed) {
  Bytes bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(seed + i + (i >> 8));
  return bytes;
}

Host::Host(nvmf::Target& of, Options with)
    : target(of),
      options(std::move(with)),
      admin(of, {.transport = options.transport, .qid = 0, .entries = 32}) {
  const Answer answer = admin.run(command::connect(0, 31, options.keep_alive_ms),
                                  bytes_of(connect_data(options.subsystem, options.nqn)));
  promise(answer.ok(), "Connect of the admin queue failed");
  controller = static_cast<uint16_t>(answer.result);
  set_configuration(kEnabled);
  promise((status() & 1) == 1, "the controller is not ready");
}

void Host::set_configuration(uint32_t value) {
  promise(admin.run(command::set_property(nvmf::Property::kConfiguration, value)).ok(), "CC can't be set");
}

uint32_t Host::status() {
  return static_cast<uint32_t>(admin.run(command::get_property(nvmf::Property::kStatus)).result);
}

HostQueue& Host::io(uint16_t qid) {
  HostQueue& queue = io_.emplace_back(
      target, nvmf::QueueOptions{.transport = options.transport, .qid = qid, .entries = options.entries});
  const Answer answer = queue.run(command::connect(qid, static_cast<uint16_t>(options.entries - 1)),
                                  bytes_of(connect_data(options.subsystem, options.nqn, controller)));
  promise(answer.ok(), "Connect of an I/O queue failed");
  return queue;
}

}  // namespace uroce::testing
