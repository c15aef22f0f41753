#include "wire/opcode.h"

namespace uroce::wire {
namespace {

/// Services that have an operation, as a set.
constexpr uint8_t kRcOnly = 1 << static_cast<int>(Service::kRc);
constexpr uint8_t kRcXrc = kRcOnly | 1 << static_cast<int>(Service::kXrc);
constexpr uint8_t kConnected = kRcXrc | 1 << static_cast<int>(Service::kUc);
constexpr uint8_t kConnectedUd = kConnected | 1 << static_cast<int>(Service::kUd);

/// What an operation is on RC; the other services follow from it.
struct OperationFacts {
  Operation operation;
  std::string_view name;
  uint8_t services;
  Family family;
  Position position;
  PayloadRule payload;
  HeaderSet headers = {};
};

constexpr HeaderSet kReth = HeaderSet::of(Header::kReth);
constexpr HeaderSet kAeth = HeaderSet::of(Header::kAeth);
constexpr HeaderSet kAtomicEth = HeaderSet::of(Header::kAtomicEth);
constexpr HeaderSet kImmediate = HeaderSet::of(Header::kImmediate);
constexpr HeaderSet kInvalidate = HeaderSet::of(Header::kInvalidate);
constexpr HeaderSet kRethImmediate = HeaderSet::of(Header::kReth, Header::kImmediate);
constexpr HeaderSet kAethAtomic = HeaderSet::of(Header::kAeth, Header::kAtomicAckEth);
constexpr HeaderSet kFethReth = HeaderSet::of(Header::kFeth, Header::kReth);

using enum Position;
using enum PayloadRule;

// clang-format off
constexpr OperationFacts kOperations[] = {
  {Operation::kSendFirst,          "SEND First",           kConnected,   Family::kSend,         kFirst,  kExactlyMtu},
  {Operation::kSendMiddle,         "SEND Middle",          kConnected,   Family::kSend,         kMiddle, kExactlyMtu},
  {Operation::kSendLast,           "SEND Last",            kConnected,   Family::kSend,         kLast,   kOneToMtu},
  {Operation::kSendLastImm,        "SEND Last+Imm",        kConnected,   Family::kSend,         kLast,   kOneToMtu,   kImmediate},
  {Operation::kSendOnly,           "SEND Only",            kConnectedUd, Family::kSend,         kOnly,   kZeroToMtu},
  {Operation::kSendOnlyImm,        "SEND Only+Imm",        kConnectedUd, Family::kSend,         kOnly,   kZeroToMtu,  kImmediate},
  {Operation::kWriteFirst,         "WRITE First",          kConnected,   Family::kWrite,        kFirst,  kExactlyMtu, kReth},
  {Operation::kWriteMiddle,        "WRITE Middle",         kConnected,   Family::kWrite,        kMiddle, kExactlyMtu},
  {Operation::kWriteLast,          "WRITE Last",           kConnected,   Family::kWrite,        kLast,   kOneToMtu},
  {Operation::kWriteLastImm,       "WRITE Last+Imm",       kConnected,   Family::kWrite,        kLast,   kOneToMtu,   kImmediate},
  {Operation::kWriteOnly,          "WRITE Only",           kConnected,   Family::kWrite,        kOnly,   kZeroToMtu,  kReth},
  {Operation::kWriteOnlyImm,       "WRITE Only+Imm",       kConnected,   Family::kWrite,        kOnly,   kZeroToMtu,  kRethImmediate},
  {Operation::kReadRequest,        "READ Request",         kRcXrc,       Family::kReadRequest,  kOnly,   kNone,       kReth},
  {Operation::kReadResponseFirst,  "READ Response First",  kRcXrc,       Family::kReadResponse, kFirst,  kExactlyMtu, kAeth},
  {Operation::kReadResponseMiddle, "READ Response Middle", kRcXrc,       Family::kReadResponse, kMiddle, kExactlyMtu},
  {Operation::kReadResponseLast,   "READ Response Last",   kRcXrc,       Family::kReadResponse, kLast,   kOneToMtu,   kAeth},
  {Operation::kReadResponseOnly,   "READ Response Only",   kRcXrc,       Family::kReadResponse, kOnly,   kZeroToMtu,  kAeth},
  {Operation::kAcknowledge,        "Acknowledge",          kRcXrc,       Family::kAck,          kOnly,   kNone,       kAeth},
  {Operation::kAtomicAcknowledge,  "ATOMIC Acknowledge",   kRcXrc,       Family::kAck,          kOnly,   kNone,       kAethAtomic},
  {Operation::kCompareSwap,        "Compare & Swap",       kRcXrc,       Family::kAtomic,       kOnly,   kNone,       kAtomicEth},
  {Operation::kFetchAdd,           "Fetch & Add",          kRcXrc,       Family::kAtomic,       kOnly,   kNone,       kAtomicEth},
  {Operation::kSendLastInvalidate, "SEND Last+Invalidate", kRcXrc,       Family::kSend,         kLast,   kOneToMtu,   kInvalidate},
  {Operation::kSendOnlyInvalidate, "SEND Only+Invalidate", kRcXrc,       Family::kSend,         kOnly,   kZeroToMtu,  kInvalidate},
  {Operation::kFlush,              "FLUSH",                kRcOnly,      Family::kFlush,        kOnly,   kNone,       kFethReth},
  {Operation::kAtomicWrite,        "ATOMIC WRITE",         kRcOnly,      Family::kAtomicWrite,  kOnly,   kEightBytes, kReth},
};
// clang-format on

struct ServiceFacts {
  Service service;
  std::string_view prefix;
};
constexpr ServiceFacts kServices[] = {
    {Service::kRc, "RC "}, {Service::kUc, "UC "}, {Service::kUd, "UD "}, {Service::kXrc, "XRC "}};

constexpr size_t kNameBytesMax = 24;

/// The text of all names, made of service and operation at compile time.
struct NameStore {
  std::array<std::array<char, kNameBytesMax>, 256> text{};
  std::array<uint8_t, 256> bytes{};
};

constexpr NameStore make_names() {
  NameStore names;
  for (const ServiceFacts& service : kServices) {
    for (const OperationFacts& operation : kOperations) {
      const uint8_t index = Opcode::make(service.service, operation.operation).value;
      for (const std::string_view part : {service.prefix, operation.name}) {
        for (const char c : part) names.text[index][names.bytes[index]++] = c;
      }
    }
  }
  return names;
}
constexpr NameStore kNames = make_names();

constexpr bool is_response(Family family) {
  return family == Family::kReadResponse || family == Family::kAck;
}

constexpr void set_payload(OpcodeRow& row, PayloadRule rule) {
  row.payload = rule;
  if (rule == PayloadRule::kEightBytes) row.payload_bytes_min = 8;
  const bool by_mtu = rule != PayloadRule::kNone && rule != PayloadRule::kEightBytes;
  row.payload_bytes_range = by_mtu ? kPayloadBytesMax : 0;
}

constexpr OpcodeRow make_row(Service service, const OperationFacts& operation) {
  OpcodeRow row;
  row.opcode = Opcode::make(service, operation.operation);
  row.name = {kNames.text[row.opcode.value].data(), kNames.bytes[row.opcode.value]};
  row.response = is_response(operation.family);
  row.traffic = traffic_of(service, row.response);
  row.headers = operation.headers;
  // An XRC request names its receiver's SRQ; an XRC response goes to a QP as on RC.
  if (service == Service::kXrc && !row.response) row.headers = row.headers.with(Header::kXrcEth);
  if (service == Service::kUd) row.headers = row.headers.with(Header::kDeth);
  row.header_bytes = static_cast<uint16_t>(kBthBytes + row.headers.bytes());
  row.family = operation.family;
  row.position = operation.position;
  set_payload(row, operation.payload);
  row.consumes_receive = operation.family == Family::kSend || operation.headers.has(Header::kImmediate);
  constexpr auto kSaysMore = HeaderSet::of(Header::kImmediate, Header::kInvalidate);
  row.whole = (row.family == Family::kSend || row.family == Family::kWrite) &&
              row.position == Position::kOnly && !row.headers.has_any(kSaysMore);
  row.valid = true;
  return row;
}

constexpr OpcodeRow make_cnp_row() {
  OpcodeRow row;
  row.opcode = kCnpOpcode;
  row.traffic = traffic_of(Service::kCnp, false);
  row.name = "CNP";
  row.headers = HeaderSet::of(Header::kCnpPadding);
  row.header_bytes = static_cast<uint16_t>(kBthBytes + row.headers.bytes());
  row.family = Family::kCnp;
  row.valid = true;
  return row;
}

constexpr std::array<OpcodeRow, 256> make_rows() {
  std::array<OpcodeRow, 256> rows{};
  for (size_t value = 0; value < rows.size(); ++value) {
    rows[value].opcode = {static_cast<uint8_t>(value)};
    rows[value].name = "undefined";
  }
  for (const ServiceFacts& service : kServices) {
    for (const OperationFacts& operation : kOperations) {
      if ((operation.services >> static_cast<int>(service.service) & 1) == 0) continue;
      const OpcodeRow row = make_row(service.service, operation);
      rows[row.opcode.value] = row;
    }
  }
  rows[kCnpOpcode.value] = make_cnp_row();
  return rows;
}

}  // namespace

constexpr std::array<OpcodeRow, 256> kOpcodeRows = make_rows();

namespace {

constexpr const OpcodeRow& row_at(Service service, Operation operation) {
  return kOpcodeRows[Opcode::make(service, operation).value];
}

// A cache line holds two rows.
static_assert(sizeof(OpcodeRow) == 32);
static_assert(row_at(Service::kRc, Operation::kSendOnly).header_bytes == 12);
static_assert(row_at(Service::kRc, Operation::kWriteOnlyImm).header_bytes == 12 + 16 + 4);
static_assert(row_at(Service::kRc, Operation::kFetchAdd).header_bytes == 12 + 28);
static_assert(row_at(Service::kRc, Operation::kAtomicAcknowledge).header_bytes == 12 + 4 + 8);
static_assert(row_at(Service::kRc, Operation::kFlush).header_bytes == 12 + 4 + 16);
static_assert(row_at(Service::kUd, Operation::kSendOnlyImm).header_bytes == 12 + 8 + 4);
static_assert(row_at(Service::kXrc, Operation::kFetchAdd).header_bytes == 12 + 4 + 28);
static_assert(row_at(Service::kXrc, Operation::kAcknowledge).header_bytes == 12 + 4);
static_assert(kOpcodeRows[kCnpOpcode.value].header_bytes == 12 + 16);
static_assert(row_at(Service::kXrc, Operation::kReadResponseMiddle).name == "XRC READ Response Middle");

// The parser's and the pad's arithmetic rest on this.
constexpr bool all_headers_are_whole_words() {
  for (const OpcodeRow& row : kOpcodeRows) {
    if (row.header_bytes % 4 != 0 || row.header_bytes > kTransportHeaderBytesMax) return false;
  }
  return true;
}
static_assert(all_headers_are_whole_words());

}  // namespace
}  // namespace uroce::wire
