// What a script posts, and how it ends.
#include "packet_fields.h"
#include "performance.h"
#include "queue/work_request.h"
#include "wire/address_text.h"

namespace uroce::script {

namespace {

using queue::CompletionOpcode;
using queue::CompletionStatus;
using queue::SendOperation;

SendOperation operation_in(Line& line) {
  const std::string name = line.next("operation");
  for (const queue::OperationRow& row : queue::kOperations)
    if (name == row.name) return row.operation;
  line.fail("no such operation: " + name);
}

constexpr Named<CompletionStatus> kStatuses[] = {
    {"success", CompletionStatus::kSuccess},
    {"local_length", CompletionStatus::kLocalLengthError},
    {"local_operation", CompletionStatus::kLocalQpOperationError},
    {"local_protection", CompletionStatus::kLocalProtectionError},
    {"flushed", CompletionStatus::kFlushed},
    {"bind", CompletionStatus::kWindowBindError},
    {"bad_response", CompletionStatus::kBadResponse},
    {"local_access", CompletionStatus::kLocalAccessError},
    {"remote_invalid_request", CompletionStatus::kRemoteInvalidRequest},
    {"remote_access", CompletionStatus::kRemoteAccessError},
    {"remote_operation", CompletionStatus::kRemoteOperationError},
    {"retry_exceeded", CompletionStatus::kRetryExceeded},
    {"rnr_retry_exceeded", CompletionStatus::kRnrRetryExceeded}};

constexpr Named<CompletionOpcode> kOpcodes[] = {
    {"send", CompletionOpcode::kSend},          {"write", CompletionOpcode::kWrite},
    {"read", CompletionOpcode::kRead},          {"compare_swap", CompletionOpcode::kCompareSwap},
    {"fetch_add", CompletionOpcode::kFetchAdd}, {"local_invalidate", CompletionOpcode::kLocalInvalidate},
    {"flush", CompletionOpcode::kFlush},        {"atomic_write", CompletionOpcode::kAtomicWrite},
    {"receive", CompletionOpcode::kReceive},    {"receive_write", CompletionOpcode::kReceiveWriteImm}};

/// The words "m+16" or "m+16:100" of the line; the last one without a length has what is left of `total`.
std::vector<queue::Segment> segments_in(Line& line, Memory& memory, uint64_t total) {
  const auto lkey = line.number("lkey");
  std::vector<queue::Segment> segments;
  while (line.has_next()) {
    const std::vector<std::string> parts = split(line.next("segment"), ':');
    const Address at = memory.address(line, parts[0]);
    const uint64_t length = parts.size() > 1 ? line.to_number(parts[1]) : total;
    if (length > total) line.fail("segments are longer than bytes=");
    total -= length;
    segments.push_back({at.value(), static_cast<uint32_t>(length),
                        lkey ? MemoryKey{static_cast<uint32_t>(*lkey)} : at.region->keys.lkey});
  }
  if (total != 0) line.fail("there is no place for " + std::to_string(total) + " bytes");
  return segments;
}

queue::SendRequest request_in(Line& line, Memory& memory, SendOperation operation) {
  queue::SendRequest request;
  request.operation = operation;
  request.length = static_cast<uint32_t>(line.number("bytes", 0));
  if (const auto remote = line.option("remote")) request.remote_address = memory.address_value(line, *remote);
  if (const auto key = line.option("rkey")) request.rkey = memory.rkey(line, *key);
  if (const auto key = line.option("invalidate")) request.invalidate = memory.rkey(line, *key);
  request.immediate = static_cast<uint32_t>(line.number("imm", 0));
  request.signaled = !line.flag("unsignaled");
  request.solicited = line.flag("SE");
  request.fence = line.flag("fence");
  request.inline_data = line.flag("inline");
  return request;
}

}  // namespace

/// post ID OPERATION [m+0 ...] bytes=N ...; with A..B for ID so many of the same, posted together.
void Performance::post(Line& line) {
  expect_silence(line);
  Actor& actor = this->actor(line);
  const auto [first, last] = Line::to_range(line.next("number of the request"));
  const SendOperation operation = operation_in(line);
  const Line said = line;
  for (uint64_t id = line.to_number(first); id <= line.to_number(last); ++id) {
    line = said;
    queue::SendRequest* const slot = actor.queue_pair->send_queue.reserve();
    if (slot == nullptr) line.fail("the queue is full");
    fill_request(line, *slot, operation);
    slot->wr_id = id;
    line.end();
  }
  actor.queue_pair->send_queue.publish();
  stage_.device().ring_doorbell(*actor.queue_pair);
  act();
}

void Performance::fill_request(Line& line, queue::SendRequest& request, queue::SendOperation operation) {
  Actor& actor = this->actor(line);
  queue::SendQueue& sends = actor.queue_pair->send_queue;
  request = request_in(line, stage_.memory(), operation);
  if (queue::is_atomic(operation)) {
    sends.operands(request) = {line.number("add", line.number("swap", 0)), line.number("compare", 0)};
    request.length = queue::kAtomicBytes;
  }
  if (operation == SendOperation::kFlush) {
    const wire::Feth flush = feth_in(line);
    sends.set_operation(
        request, queue::FlushOperation{flush.global_visibility, flush.persistence, flush.whole_region});
  } else if (request.inline_data) {
    const Bytes bytes = stage_.memory().data(line, line.option("data").value_or("0"), 0, request.length);
    std::copy(bytes.begin(), bytes.end(), sends.inline_bytes(request));
  } else {
    const auto segments = segments_in(line, stage_.memory(), request.length);
    request.segments = static_cast<uint16_t>(segments.size());
    std::copy(segments.begin(), segments.end(), sends.segments(request));
  }
  if (actor.type == qp::Type::kUd) address_request(line, request);
  if (actor.type == qp::Type::kXrcSend)
    sends.attach(request, queue::SrqNumber{stage_.receives_number(line, line.option("srq").value_or("0"))});
}

/// Where a datagram goes.
void Performance::address_request(Line& line, queue::SendRequest& request) {
  const Actor& actor = this->actor(line);
  wire::Path path = actor.attributes.path;
  if (const auto to = line.option("to")) path.destination = wire::parse_ip(*to).value();
  auto address = stage_.device().take_address(path);
  if (!address) line.fail(address.error().message);
  stage_.device().give_back_address();
  const QpNumber to{static_cast<uint32_t>(line.number("to_qp", actor.peer.value))};
  const auto qkey = static_cast<uint32_t>(line.number("qkey", actor.attributes.qkey));
  actor.queue_pair->send_queue.attach(request, qp::address_to(*address, wire::SourcePorts::kFlowLabel, 0,
                                                              actor.queue_pair->number, to, qkey));
}

/// recv ID [m+0 ...] [bytes=N] [srq=NAME]; with A..B for ID so many of the same.
void Performance::receive(Line& line) {
  expect_silence(line);
  const auto [first, last] = Line::to_range(line.next("number of the request"));
  const auto bytes = static_cast<uint32_t>(line.number("bytes", 0));
  const auto shared = line.option("srq");
  const auto segments = segments_in(line, stage_.memory(), bytes);
  const auto fill = [&](auto& queue, uint64_t id) -> queue::ReceiveRequest& {
    queue::ReceiveRequest* const slot = queue.reserve();
    if (slot == nullptr) line.fail("the queue is full");
    *slot = {.wr_id = id, .length = bytes, .segments = static_cast<uint16_t>(segments.size())};
    std::copy(segments.begin(), segments.end(), queue.segments(*slot));
    return *slot;
  };
  for (uint64_t id = line.to_number(first); id <= line.to_number(last); ++id) {
    if (shared) {
      queue::SharedReceiveQueue& queue = stage_.shared_receives(line, *shared).receives->queue;
      queue.publish(fill(queue, id));
      continue;
    }
    engine::QpSlot& queue_pair = *actor(line).queue_pair;
    fill(queue_pair.receive_queue, id);
    queue_pair.receive_queue.publish();
    if (queue_pair.in_error.load()) stage_.device().ring_doorbell(queue_pair);
  }
  act();
}

namespace {

/// What is wrong with a completion, or nothing.
std::string compare(Line& line, Memory& memory, const queue::Completion& found, CompletionStatus status,
                    bool receive) {
  if (found.status != status) return "the status is " + name_of(kStatuses, found.status);
  if (const auto opcode = line.option("opcode"); opcode && name_of(kOpcodes, found.opcode) != *opcode)
    return "the opcode is " + name_of(kOpcodes, found.opcode);
  if (const auto remote = line.number("src_qp"); remote && found.remote.value != *remote)
    return "it comes from " + std::to_string(found.remote.value);
  if (!receive || status != CompletionStatus::kSuccess) return {};
  const auto bytes = line.number("bytes");
  if (!bytes) line.fail("bytes= is missing");
  if (found.bytes != *bytes) return "it has " + std::to_string(found.bytes) + " bytes";
  const auto immediate = line.number("imm");
  if (found.has_immediate != immediate.has_value() || (immediate && found.immediate != *immediate))
    return "wrong immediate";
  const auto invalidated = line.option("invalidated");
  if (found.has_invalidated != invalidated.has_value() ||
      (invalidated && memory.rkey(line, *invalidated).value != found.immediate))
    return "wrong invalidated key";
  if (found.solicited != line.flag("SE")) return "solicited or not";
  if (found.has_grh != line.flag("grh")) return "GRH or not";
  return {};
}

}  // namespace

/// completion send|recv ID STATUS ...; with A..B for ID so many of the same.
void Performance::completion(Line& line) {
  ++expectations_;
  Actor& actor = this->actor(line);
  const std::string which = line.next("send or recv");
  if (which != "send" && which != "recv") line.fail("send or recv");
  const bool receive = which == "recv";
  const auto shared = line.option("srq");
  auto& own = receive ? actor.receive_completions : actor.send_completions;
  auto& queue = shared ? stage_.shared_receives(line, *shared).completed : own;
  const auto [first, last] = Line::to_range(line.next("number of the request"));
  const CompletionStatus status = value_of(line, kStatuses, line.next("status"), "status");
  const Line said = line;
  for (uint64_t id = line.to_number(first); id <= line.to_number(last); ++id) {
    if (queue.empty()) line.fail("no completion came");
    const queue::Completion found = queue.front();
    queue.pop_front();
    if (found.wr_id != id) line.fail("that of " + std::to_string(found.wr_id) + " came");
    line = said;
    if (const std::string wrong = compare(line, stage_.memory(), found, status, receive); !wrong.empty())
      line.fail(wrong);
  }
}

}  // namespace uroce::script
