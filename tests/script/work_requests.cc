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

constexpr Named<SendOperation> kOperations[] = {{"SEND", SendOperation::kSend},
                                                {"SEND_IMM", SendOperation::kSendImm},
                                                {"SEND_INVALIDATE", SendOperation::kSendInvalidate},
                                                {"WRITE", SendOperation::kWrite},
                                                {"WRITE_IMM", SendOperation::kWriteImm},
                                                {"READ", SendOperation::kRead},
                                                {"READ_INVALIDATE", SendOperation::kReadInvalidate},
                                                {"COMPARE_SWAP", SendOperation::kCompareSwap},
                                                {"FETCH_ADD", SendOperation::kFetchAdd},
                                                {"ATOMIC_WRITE", SendOperation::kAtomicWrite},
                                                {"FLUSH", SendOperation::kFlush},
                                                {"LOCAL_INVALIDATE", SendOperation::kLocalInvalidate}};

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

/// post ID OPERATION [m+0 ...] bytes=N ...
void Performance::post(Line& line) {
  expect_silence(line);
  Actor& actor = this->actor(line);
  queue::SendQueue& sends = *actor.queue_pair->send_queue;
  const uint64_t id = line.to_number(line.next("number of the request"));
  const SendOperation operation = value_of(line, kOperations, line.next("operation"), "operation");
  queue::SendRequest* const slot = sends.reserve();
  if (slot == nullptr) line.fail("the queue is full");
  *slot = request_in(line, stage_.memory(), operation);
  slot->wr_id = id;
  if (queue::is_atomic(operation)) {
    sends.operands(*slot) = {line.number("add", line.number("swap", 0)), line.number("compare", 0)};
    slot->length = queue::kAtomicBytes;
  }
  if (operation == SendOperation::kFlush) {
    const wire::Feth flush = feth_in(line);
    sends.set_operation(
        *slot, queue::FlushOperation{flush.global_visibility, flush.persistence, flush.whole_region});
  } else if (slot->inline_data) {
    const Bytes bytes = stage_.memory().data(line, line.option("data").value_or("0"), 0, slot->length);
    std::copy(bytes.begin(), bytes.end(), sends.inline_bytes(*slot));
  } else {
    const auto segments = segments_in(line, stage_.memory(), slot->length);
    slot->segments = static_cast<uint16_t>(segments.size());
    std::copy(segments.begin(), segments.end(), sends.segments(*slot));
  }
  if (actor.type == qp::Type::kUd) {
    wire::Path path = actor.attributes.path;
    if (const auto to = line.option("to")) path.destination = wire::parse_ip(*to).value();
    auto address = stage_.device().take_address(path);
    if (!address) line.fail(address.error().message);
    stage_.device().give_back_address();
    const QpNumber to{static_cast<uint32_t>(line.number("to_qp", actor.peer.value))};
    sends.attach(*slot, qp::address_to(*address, 0, actor.queue_pair->number, to,
                                       static_cast<uint32_t>(line.number("qkey", actor.attributes.qkey))));
  }
  line.end();
  sends.publish();
  stage_.device().ring_doorbell(*actor.queue_pair);
  act();
}

/// recv ID [m+0 ...] bytes=N [srq=NAME]
void Performance::receive(Line& line) {
  expect_silence(line);
  const uint64_t id = line.to_number(line.next("number of the request"));
  const auto bytes = static_cast<uint32_t>(line.number("bytes", 0));
  const auto shared = line.option("srq");
  const auto segments = segments_in(line, stage_.memory(), bytes);
  const auto fill = [&](auto& queue) -> queue::ReceiveRequest& {
    queue::ReceiveRequest* const slot = queue.reserve();
    if (slot == nullptr) line.fail("the queue is full");
    *slot = {.wr_id = id, .length = bytes, .segments = static_cast<uint16_t>(segments.size())};
    std::copy(segments.begin(), segments.end(), queue.segments(*slot));
    return *slot;
  };
  if (shared) {
    queue::SharedReceiveQueue& queue = stage_.shared_receives(line, *shared).receives->queue;
    queue.publish(fill(queue));
    return act();
  }
  engine::QueuePairHandle& queue_pair = *actor(line).queue_pair;
  fill(*queue_pair.receive_queue);
  queue_pair.receive_queue->publish();
  if (queue_pair.in_error.load()) stage_.device().ring_doorbell(queue_pair);
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

/// completion send|recv ID STATUS ...
void Performance::completion(Line& line) {
  ++expectations_;
  Actor& actor = this->actor(line);
  const std::string which = line.next("send or recv");
  if (which != "send" && which != "recv") line.fail("send or recv");
  const bool receive = which == "recv";
  auto& queue = receive ? actor.receive_completions : actor.send_completions;
  const uint64_t id = line.to_number(line.next("number of the request"));
  const CompletionStatus status = value_of(line, kStatuses, line.next("status"), "status");
  if (queue.empty()) line.fail("no completion came");
  const queue::Completion found = queue.front();
  queue.pop_front();
  if (found.wr_id != id) line.fail("that of " + std::to_string(found.wr_id) + " came");
  if (const std::string wrong = compare(line, stage_.memory(), found, status, receive); !wrong.empty())
    line.fail(wrong);
}

}  // namespace uroce::script
