// Decision: late RC packets for a number of no program are not answered. A NAK acknowledges all requests
// before its PSN, and which of them were performed is not known. Cost: such a peer waits for its retries.
//
// Decision: a frame from program to program that passes the service skips the device's receive path. There
// one program could fill the loop ring of all. Cost: captures of the device lack it.
#include "service/program_switch.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/poller/gsi.h"
#include "wire/frame.h"

namespace uroce::service {

ProgramSwitch::ProgramSwitch(Options options)
    : options_(std::move(options)),
      routes_(derive(options_.key, 1)),
      next_transaction_(keyed_hash(options_.key, 2, 0)) {
  refused_.reserve(HeldRequests::kMax);
  by_number_.reserve(host::NumberBlocks::kBlocks);
}

void ProgramSwitch::add(ClientSession& program) {
  programs_.push_back(&program);
  by_number_.emplace(program.program(), &program);
  owners_.set(program.block(), &program);
  left_.forget(program.block());
}

void ProgramSwitch::remove(ClientSession& program) {
  std::erase(programs_, &program);
  by_number_.erase(program.program());
  owners_.set(program.block(), nullptr);
  while (!remove_some(program)) continue;
}

ClientSession* ProgramSwitch::find(uint32_t program) const {
  const auto at = by_number_.find(program);
  return at == by_number_.end() ? nullptr : at->second;
}

bool ProgramSwitch::deliver(const Arrival& arrival) {
  const QpNumber to = arrival.packet.headers.bth.destination;
  if (to == engine::Gsi::kNumber) return deliver_management(arrival);
  ClientSession* const program = owners_.of(to);
  if (program == nullptr) return false;
  program->send(arrival.frame, arrival.has_icrc, arrival.sender, turn_);
  return true;
}

/// A program that sends to a group gives its own members their copies itself.
bool ProgramSwitch::deliver_to_group(const Arrival& arrival) {
  const wire::Packet& packet = arrival.packet;
  const std::span<ClientSession* const> members = groups_.members(packet.destination);
  if (group_copies_ >= kGroupCopiesMax && !members.empty()) {
    members.front()->drop(Drop::kFull);
    return true;
  }
  group_copies_ += members.size();
  const bool ours = packet.source_mac == options_.device.mac && packet.row->headers.has(wire::Header::kDeth);
  for (ClientSession* member : members) {
    if (ours && member->owns(packet.headers.deth.source)) continue;
    member->send(arrival.frame, arrival.has_icrc, arrival.sender, turn_);
  }
  return !members.empty();
}

size_t ProgramSwitch::collect(Instant now, port::TxBatch& batch) {
  now_ = now;
  ++turn_;
  group_copies_ = 0;
  if (!held_.empty()) release_held(batch);
  if (left_.size() != 0) send_disconnects(batch);
  size_t count = 0;
  const size_t programs = programs_.size();
  for (size_t i = 0; i < programs; ++i) {
    const size_t index = (first_ + i) % programs;
    count += collect_from(*programs_[index], batch);
    if (!batch.full()) continue;
    first_ = index + 1;
    break;
  }
  return count;
}

size_t ProgramSwitch::collect_from(ClientSession& program, port::TxBatch& batch) {
  host::Channel& channel = program.channel();
  size_t count = 0;
  for (size_t cost = 0; cost < kFramesMax && channel.pending(); ++count) {
    port::TxFrame* const frame = batch.next();
    if (frame == nullptr) break;
    const host::Channel::Frame from = channel.receive();
    if (from.data == nullptr) break;
    program.count_received(from.length);
    if (from.length > std::min(frame->capacity, options_.frame_bytes_max)) {
      program.drop(Drop::kTooLong);
      ++cost;
      continue;
    }
    // What is looked at from here on the program cannot change.
    std::memcpy(frame->data, from.data, from.length);
    frame->length = from.length;
    frame->has_icrc = from.has_icrc;
    cost += forward(program, *frame, batch);
  }
  if (count > 0) channel.release();
  return count;
}

size_t ProgramSwitch::forward(ClientSession& program, port::TxFrame& frame, port::TxBatch& batch) {
  const std::span<const std::byte> bytes(frame.data, frame.length);
  const auto way = check_outgoing(bytes, options_.device, {program, owners_}, packet_);
  if (const Drop* const reason = std::get_if<Drop>(&way)) {
    program.drop(*reason);
    return 1;
  }
  const bool to_self = std::get<Way>(way) == Way::kSelf;
  if (to_self &&
      deliver({.packet = packet_, .frame = bytes, .has_icrc = frame.has_icrc, .sender = program.code()}))
    return 1;
  if (!to_self && !frame.has_icrc) {
    wire::append_icrc(frame.data + (packet_.ip_packet.data() - frame.data), packet_.ip_packet.size());
    frame.has_icrc = true;
  }
  frame.to_self = to_self;
  frame.to_group = std::get<Way>(way) == Way::kGroup;
  frame.on_host = false;
  batch.commit();
  return frame.to_group ? std::max<size_t>(1, groups_.members(packet_.destination).size()) : 1;
}

}  // namespace uroce::service
