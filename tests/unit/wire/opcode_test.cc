#include "wire/opcode.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace uroce::wire {
namespace {

/// What the protocol says, written down without the table's help: header bytes behind the BTH as they follow
/// each other, payload, place in the message, direction. Payload: '-' none, '=' exactly the MTU, '1' one byte
/// to MTU, '0' none to MTU, '8' eight bytes.
struct Expected {
  const char* name;
  uint32_t extension_bytes;
  char payload;
  char position;  // 'F', 'M', 'L', 'O'
  bool response;
  bool consumes_receive;
};

// clang-format off
const std::map<int, Expected> kRcAndXrc = {
    {0x00, {"SEND First", 0, '=', 'F', false, true}},
    {0x01, {"SEND Middle", 0, '=', 'M', false, true}},
    {0x02, {"SEND Last", 0, '1', 'L', false, true}},
    {0x03, {"SEND Last+Imm", 4, '1', 'L', false, true}},
    {0x04, {"SEND Only", 0, '0', 'O', false, true}},
    {0x05, {"SEND Only+Imm", 4, '0', 'O', false, true}},
    {0x06, {"WRITE First", 16, '=', 'F', false, false}},
    {0x07, {"WRITE Middle", 0, '=', 'M', false, false}},
    {0x08, {"WRITE Last", 0, '1', 'L', false, false}},
    {0x09, {"WRITE Last+Imm", 4, '1', 'L', false, true}},
    {0x0A, {"WRITE Only", 16, '0', 'O', false, false}},
    {0x0B, {"WRITE Only+Imm", 20, '0', 'O', false, true}},
    {0x0C, {"READ Request", 16, '-', 'O', false, false}},
    {0x0D, {"READ Response First", 4, '=', 'F', true, false}},
    {0x0E, {"READ Response Middle", 0, '=', 'M', true, false}},
    {0x0F, {"READ Response Last", 4, '1', 'L', true, false}},
    {0x10, {"READ Response Only", 4, '0', 'O', true, false}},
    {0x11, {"Acknowledge", 4, '-', 'O', true, false}},
    {0x12, {"ATOMIC Acknowledge", 12, '-', 'O', true, false}},
    {0x13, {"Compare & Swap", 28, '-', 'O', false, false}},
    {0x14, {"Fetch & Add", 28, '-', 'O', false, false}},
    {0x16, {"SEND Last+Invalidate", 4, '1', 'L', false, true}},
    {0x17, {"SEND Only+Invalidate", 4, '0', 'O', false, true}},
};
const std::map<int, Expected> kRcOnly = {
    {0x1C, {"FLUSH", 20, '-', 'O', false, false}},
    {0x1D, {"ATOMIC WRITE", 16, '8', 'O', false, false}},
};
// clang-format on

PayloadRule payload_rule(char letter) {
  switch (letter) {
    case '=':
      return PayloadRule::kExactlyMtu;
    case '1':
      return PayloadRule::kOneToMtu;
    case '0':
      return PayloadRule::kZeroToMtu;
    case '8':
      return PayloadRule::kEightBytes;
    default:
      return PayloadRule::kNone;
  }
}

Position position(char letter) {
  switch (letter) {
    case 'F':
      return Position::kFirst;
    case 'M':
      return Position::kMiddle;
    case 'L':
      return Position::kLast;
    default:
      return Position::kOnly;
  }
}

/// All 256 byte values that mean something, each with its full name.
std::map<int, std::pair<std::string, Expected>> expected_table() {
  std::map<int, std::pair<std::string, Expected>> table;
  for (const auto& [value, row] : kRcAndXrc) {
    table[value] = {std::string("RC ") + row.name, row};
    Expected xrc = row;
    if (!row.response) xrc.extension_bytes += 4;  // XRCETH
    table[0xA0 | value] = {std::string("XRC ") + row.name, xrc};
    if (value <= 0x0B) table[0x20 | value] = {std::string("UC ") + row.name, row};
  }
  for (const auto& [value, row] : kRcOnly) table[value] = {std::string("RC ") + row.name, row};
  table[0x64] = {"UD SEND Only", {"", 8, '0', 'O', false, true}};
  table[0x65] = {"UD SEND Only+Imm", {"", 12, '0', 'O', false, true}};
  table[0x81] = {"CNP", {"", 16, '-', 'O', false, false}};
  return table;
}

TEST(OpcodeTable, AgreesWithTheProtocolForEveryByteValue) {
  const auto table = expected_table();
  for (int value = 0; value < 256; ++value) {
    SCOPED_TRACE(testing::Message() << "opcode " << value);
    const OpcodeRow& row = opcode_row({static_cast<uint8_t>(value)});
    EXPECT_EQ(row.opcode.value, value);
    const auto found = table.find(value);
    ASSERT_EQ(row.valid, found != table.end());
    if (!row.valid) continue;
    const auto& [name, expected] = found->second;
    EXPECT_EQ(row.name, name);
    EXPECT_EQ(row.header_bytes, 12 + expected.extension_bytes);
    EXPECT_EQ(row.payload, payload_rule(expected.payload));
    EXPECT_EQ(row.position, position(expected.position));
    EXPECT_EQ(row.response, expected.response);
    EXPECT_EQ(row.consumes_receive, expected.consumes_receive);
  }
}

TEST(OpcodeTable, NamesExactlyTheHeadersThatTheProtocolPutsBehindTheBth) {
  const auto headers = [](int value) { return opcode_row({static_cast<uint8_t>(value)}).headers; };
  EXPECT_EQ(headers(0x04), HeaderSet());
  EXPECT_EQ(headers(0x05), HeaderSet::of(Header::kImmediate));
  EXPECT_EQ(headers(0x0B), HeaderSet::of(Header::kReth, Header::kImmediate));
  EXPECT_EQ(headers(0x0E), HeaderSet()) << "a READ Response Middle has no AETH";
  EXPECT_EQ(headers(0x12), HeaderSet::of(Header::kAeth, Header::kAtomicAckEth));
  EXPECT_EQ(headers(0x13), HeaderSet::of(Header::kAtomicEth));
  EXPECT_EQ(headers(0x17), HeaderSet::of(Header::kInvalidate));
  EXPECT_EQ(headers(0x1C), HeaderSet::of(Header::kFeth, Header::kReth));
  EXPECT_EQ(headers(0x1D), HeaderSet::of(Header::kReth));
  EXPECT_EQ(headers(0x65), HeaderSet::of(Header::kDeth, Header::kImmediate));
  EXPECT_EQ(headers(0x81), HeaderSet::of(Header::kCnpPadding));
  EXPECT_EQ(headers(0xAB), HeaderSet::of(Header::kXrcEth, Header::kReth, Header::kImmediate));
  EXPECT_EQ(headers(0xB1), HeaderSet::of(Header::kAeth)) << "an XRC response has no XRCETH";
}

TEST(OpcodeTable, PutsEveryOperationIntoItsFamily) {
  const auto family = [](Operation operation) {
    return opcode_row(Opcode::make(Service::kRc, operation)).family;
  };
  EXPECT_EQ(family(Operation::kSendFirst), Family::kSend);
  EXPECT_EQ(family(Operation::kSendOnlyInvalidate), Family::kSend);
  EXPECT_EQ(family(Operation::kWriteLastImm), Family::kWrite);
  EXPECT_EQ(family(Operation::kReadRequest), Family::kReadRequest);
  EXPECT_EQ(family(Operation::kReadResponseMiddle), Family::kReadResponse);
  EXPECT_EQ(family(Operation::kAcknowledge), Family::kAck);
  EXPECT_EQ(family(Operation::kAtomicAcknowledge), Family::kAck);
  EXPECT_EQ(family(Operation::kCompareSwap), Family::kAtomic);
  EXPECT_EQ(family(Operation::kFetchAdd), Family::kAtomic);
  EXPECT_EQ(family(Operation::kFlush), Family::kFlush);
  EXPECT_EQ(family(Operation::kAtomicWrite), Family::kAtomicWrite);
  EXPECT_EQ(opcode_row(kCnpOpcode).family, Family::kCnp);
}

}  // namespace
}  // namespace uroce::wire
