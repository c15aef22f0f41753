#pragma once

#include <span>
#include <string>

#include "stage.h"
#include "wire/headers.h"

namespace uroce::script {

/// A field of a packet that a script can name.
struct Field {
  enum class Kind : uint8_t { kNumber, kAddress, kKey };
  const char* name;
  std::optional<wire::Header> header;  // that it is in; none: the BTH
  Kind kind;
  uint64_t (*get)(const wire::Headers& headers);
  void (*set)(wire::Headers& headers, uint64_t value);
};

/// Packets of this opcode are of a queue pair that has one peer. Without path migration they have MigReq, for
/// the state is Migrated (IBTA 17.2.8).
bool is_connected(const wire::OpcodeRow& row);

/// The fields that packets of this opcode have.
std::vector<Field> fields_of(const wire::OpcodeRow& row);
/// What the line says about the field, if anything.
std::optional<uint64_t> value_in(Line& line, Memory& memory, const Field& field);

/// The row that a name stands for, `service` being that of short names.
const wire::OpcodeRow& row_named(const Line& line, const std::string& name, wire::Service service);
/// "WRITE_FIRST".
std::string name_of(const wire::OpcodeRow& row);

/// `ack`, `nak=`, ...; nothing if the line says nothing. `credits`: whether it says how many.
std::optional<wire::Aeth> aeth_in(Line& line, bool& credits);
/// What to FLUSH.
wire::Feth feth_in(Line& line);

}  // namespace uroce::script
