// What a `<` line sends.
#include <algorithm>
#include <cassert>

#include "packet_fields.h"
#include "packets.h"
#include "wire/address_text.h"
#include "wire/big_endian.h"
#include "wire/frame.h"
#include "wire/icrc/icrc.h"
#include "wire/internet_checksum.h"
#include "wire/layers.h"

namespace uroce::script {

namespace {

/// What is done to a frame that is otherwise right.
struct Damage {
  struct Patch {
    size_t at;
    std::byte value;
  };
  std::vector<Patch> patches;
  bool wrong_checksum = false;
  bool wrong_icrc = false;
  size_t cut = 0;
  size_t grow = 0;
};

bool is_wrong(Line& line, const std::string& key) {
  const auto value = line.option(key);
  if (value && *value != "wrong") line.fail(key + "=wrong");
  return value.has_value();
}

void add_patches(const Line& line, const std::string& text, const wire::FrameTemplate& path, bool ipv4,
                 std::vector<Damage::Patch>& patches) {
  const size_t ip = path.ip_offset();
  const Named<size_t> kParts[] = {{"eth", 0},
                                  {"ip", ip},
                                  {"udp", ip + (ipv4 ? wire::kIpv4Bytes : wire::kIpv6Bytes)},
                                  {"bth", path.bytes()}};
  const std::vector<std::string> halves = split(text, ':');
  const std::vector<std::string> where = split(halves[0], '+');
  if (halves.size() != 2 || halves[1].size() % 2 != 0) line.fail("set=PART+OFFSET:HEX");
  size_t at = value_of(line, kParts, where[0], "part of a frame");
  if (where.size() > 1) at += line.to_number(where[1]);
  for (size_t i = 0; i < halves[1].size(); i += 2)
    patches.push_back({at++, static_cast<std::byte>(line.to_number("0x" + halves[1].substr(i, 2)))});
}

Damage damage_in(Line& line, const wire::FrameTemplate& path, bool ipv4) {
  Damage damage;
  if (const auto opcode = line.number("opcode"))
    damage.patches.push_back({path.bytes(), static_cast<std::byte>(*opcode)});
  for (const std::string& text : split(line.option("set").value_or("")))
    add_patches(line, text, path, ipv4, damage.patches);
  damage.wrong_checksum = is_wrong(line, "checksum");
  damage.wrong_icrc = is_wrong(line, "icrc");
  damage.cut = line.number("cut", 0);
  damage.grow = line.number("grow", 0);
  return damage;
}

void apply(const Line& line, const Damage& damage, Bytes& frame, size_t ip, bool ipv4) {
  for (const Damage::Patch& patch : damage.patches) {
    if (patch.at >= frame.size()) line.fail("set= beyond the end of the frame");
    frame[patch.at] = patch.value;
  }
  if (ipv4) {
    std::byte* const checksum = frame.data() + ip + 10;
    wire::store_be16(checksum, 0);
    const uint16_t sum = wire::fold_sum(wire::add_words({frame.data() + ip, wire::kIpv4Bytes}));
    wire::store_be16(checksum, static_cast<uint16_t>(~__builtin_bswap16(sum)));
    if (damage.wrong_checksum) checksum[0] ^= std::byte{1};
  }
  const size_t covered = frame.size() - ip - wire::kIcrcBytes;
  uint32_t icrc = wire::icrc_of({frame.data() + ip, covered});
  if (damage.wrong_icrc) icrc ^= 1;
  for (size_t i = 0; i < wire::kIcrcBytes; ++i)
    frame[ip + covered + i] = static_cast<std::byte>(icrc >> 8 * i);
  frame.resize(frame.size() - std::min(damage.cut, frame.size()) + damage.grow);
}

wire::Path path_from_peer(Line& line, const Actor& actor) {
  wire::Path path = actor.attributes.path;
  std::swap(path.source, path.destination);
  std::swap(path.source_mac, path.destination_mac);
  if (const auto from = line.option("from")) path.source = wire::parse_ip(*from).value();
  if (const auto to = line.option("to")) path.destination = wire::parse_ip(*to).value();
  if (const auto bits = line.number("tos")) path.traffic_class = static_cast<uint8_t>(*bits);
  if (const auto tci = line.number("vlan")) {
    path.has_vlan = true;
    path.vlan_tci = static_cast<uint16_t>(*tci);
  }
  return path;
}

wire::Headers headers_in(Line& line, Stage& stage, const wire::OpcodeRow& row, const Actor& actor) {
  wire::Headers headers;
  headers.bth.opcode = row.opcode;
  headers.bth.destination = {static_cast<uint32_t>(line.number("qp", actor.queue_pair->number.value))};
  headers.bth.ack_request = line.flag("A");
  headers.bth.solicited = line.flag("SE");
  headers.bth.fecn = line.flag("fecn");
  headers.bth.becn = line.flag("becn");
  headers.bth.migration = is_connected(row);
  if (row.headers.has(wire::Header::kAeth)) {
    bool credits = false;
    headers.aeth = aeth_in(line, credits).value_or(wire::Aeth::ack(0));
  }
  if (row.headers.has(wire::Header::kFeth)) headers.feth = feth_in(line);
  if (row.headers.has(wire::Header::kXrcEth)) {
    if (const auto srq = line.option("srq")) headers.xrc_srq = stage.receives_number(line, *srq);
  }
  headers.deth = {actor.attributes.qkey, actor.peer};
  for (const Field& field : fields_of(row)) {
    if (const auto value = value_in(line, stage.memory(), field)) field.set(headers, *value);
  }
  return headers;
}

Bytes make_frame(const wire::FrameTemplate& path, const wire::Headers& headers, const Bytes& payload) {
  const auto bytes = static_cast<uint32_t>(payload.size());
  Bytes frame(wire::frame_bytes(path, headers.bth.opcode, bytes));
  std::copy(payload.begin(), payload.end(), wire::write_headers(frame, path, headers, bytes));
  frame.resize(wire::finish_frame(frame, path, headers.bth.opcode, bytes));
  return frame;
}

}  // namespace

std::vector<Bytes> frames_to(Line& line, Stage& stage, const Actor& actor) {
  const wire::OpcodeRow& row = row_named(line, line.next("name of the packet"), qp::service_of(actor.type));
  const wire::Path path = path_from_peer(line, actor);
  const wire::FrameTemplate frame_template(path);
  wire::Headers headers = headers_in(line, stage, row, actor);
  const auto [first, last] = Line::to_range(line.option("psn").value_or("0"));
  const Psn begin(static_cast<uint32_t>(line.to_number(first)));
  const size_t count = static_cast<size_t>(Psn(static_cast<uint32_t>(line.to_number(last))) - begin + 1);
  const size_t bytes = line.number("bytes", 0);
  const std::string data = line.option("data").value_or("0");
  const bool ipv4 = path.source.is_ipv4();
  const Damage damage = damage_in(line, frame_template, ipv4);
  line.end();

  std::vector<Bytes> frames;
  for (size_t i = 0; i < count; ++i) {
    headers.bth.psn = begin + static_cast<uint32_t>(i);
    frames.push_back(make_frame(frame_template, headers, stage.memory().data(line, data, i * bytes, bytes)));
    apply(line, damage, frames.back(), frame_template.ip_offset(), ipv4);
  }
  return frames;
}

}  // namespace uroce::script
