#include "packet_fields.h"

#include <algorithm>
#include <cctype>

namespace uroce::script {

using wire::Header;
using wire::Headers;

namespace {

#define UROCE_FIELD(name, header, kind, member)                                                         \
  {                                                                                                     \
    name, header, Field::Kind::kind, [](const Headers& h) -> uint64_t { return member; },               \
        [](Headers& h, uint64_t value) { member = static_cast<std::decay_t<decltype(member)>>(value); } \
  }

const Field kFields[] = {
    UROCE_FIELD("pkey", std::nullopt, kNumber, h.bth.partition_key),
    UROCE_FIELD("mig_req", std::nullopt, kNumber, h.bth.migration),
    UROCE_FIELD("va", Header::kReth, kAddress, h.reth.address),
    UROCE_FIELD("rkey", Header::kReth, kKey, h.reth.rkey.value),
    UROCE_FIELD("length", Header::kReth, kNumber, h.reth.length),
    UROCE_FIELD("va", Header::kAtomicEth, kAddress, h.atomic.address),
    UROCE_FIELD("rkey", Header::kAtomicEth, kKey, h.atomic.rkey.value),
    UROCE_FIELD("swap", Header::kAtomicEth, kNumber, h.atomic.swap_or_add),
    UROCE_FIELD("add", Header::kAtomicEth, kNumber, h.atomic.swap_or_add),
    UROCE_FIELD("compare", Header::kAtomicEth, kNumber, h.atomic.compare),
    UROCE_FIELD("msn", Header::kAeth, kNumber, h.aeth.msn),
    UROCE_FIELD("value", Header::kAtomicAckEth, kNumber, h.atomic_original),
    UROCE_FIELD("qkey", Header::kDeth, kNumber, h.deth.qkey),
    UROCE_FIELD("src_qp", Header::kDeth, kNumber, h.deth.source.value),
    UROCE_FIELD("imm", Header::kImmediate, kNumber, h.immediate),
    UROCE_FIELD("invalidate", Header::kInvalidate, kKey, h.invalidate.value),
    UROCE_FIELD("srq", Header::kXrcEth, kNumber, h.xrc_srq),
};
#undef UROCE_FIELD

constexpr Named<wire::NakCode> kNaks[] = {{"sequence", wire::NakCode::kSequenceError},
                                          {"invalid_request", wire::NakCode::kInvalidRequest},
                                          {"remote_access", wire::NakCode::kRemoteAccess},
                                          {"remote_operational", wire::NakCode::kRemoteOperational}};

/// "RC SEND Last+Imm" becomes RC_SEND_LAST_IMM.
std::string with_service(const wire::OpcodeRow& row) {
  std::string name;
  for (const char c : row.name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    } else if (name.back() != '_') {
      name += '_';
    }
  }
  return name;
}

}  // namespace

std::string name_of(const wire::OpcodeRow& row) {
  const std::string name = with_service(row);
  return name.substr(name.find('_') + 1);
}

const wire::OpcodeRow& row_named(const Line& line, const std::string& name, wire::Service service) {
  for (const wire::OpcodeRow& row : wire::kOpcodeRows) {
    if (!row.valid) continue;
    if (with_service(row) == name || (row.opcode.service() == service && name_of(row) == name)) return row;
  }
  line.fail("no such packet: " + name);
}

bool is_connected(const wire::OpcodeRow& row) {
  const wire::Service service = row.opcode.service();
  return service == wire::Service::kRc || service == wire::Service::kUc || service == wire::Service::kXrc;
}

std::vector<Field> fields_of(const wire::OpcodeRow& row) {
  std::vector<Field> fields;
  std::copy_if(std::begin(kFields), std::end(kFields), std::back_inserter(fields),
               [&](const Field& field) { return !field.header || row.headers.has(*field.header); });
  return fields;
}

std::optional<uint64_t> value_in(Line& line, Memory& memory, const Field& field) {
  const auto text = line.option(field.name);
  if (!text) return std::nullopt;
  switch (field.kind) {
    case Field::Kind::kNumber:
      break;
    case Field::Kind::kAddress:
      return memory.address_value(line, *text);
    case Field::Kind::kKey:
      return memory.rkey(line, *text).value;
  }
  return line.to_number(*text);
}

std::optional<wire::Aeth> aeth_in(Line& line, bool& credits) {
  if (line.flag("ack")) return wire::Aeth::ack(0);
  if (const auto count = line.number("ack")) {
    credits = true;
    return wire::Aeth::ack(0, static_cast<uint8_t>(*count));
  }
  if (const auto nak = line.option("nak")) return wire::Aeth::nak(value_of(line, kNaks, *nak, "NAK"), 0);
  if (const auto code = line.number("rnr")) return wire::Aeth::rnr(static_cast<uint8_t>(*code), 0);
  if (const auto syndrome = line.number("syndrome")) {
    return wire::Aeth{static_cast<wire::AethKind>(*syndrome >> 5 & 3), static_cast<uint8_t>(*syndrome & 31),
                      0};
  }
  return std::nullopt;
}

wire::Feth feth_in(Line& line) {
  return {.global_visibility = line.flag("global"),
          .persistence = line.flag("persistence"),
          .whole_region = line.flag("whole")};
}

}  // namespace uroce::script
