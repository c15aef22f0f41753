#include "staged_capture.h"

#include <pcap/pcap.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>
#include <utility>

#include "drivers/port/packet/roce_headers.h"
#include "wire/big_endian.h"
#include "wire/frame.h"
#include "wire/header_sizes.h"
#include "wire/packet.h"

namespace uroce::decode {
namespace {

constexpr size_t kIp = wire::kEthernetBytes;
constexpr size_t kBth = kIp + wire::kIpv4Bytes + wire::kUdpBytes;

Gid gid_of(StagedCapture::Network network, uint8_t host) {
  if (network == StagedCapture::Network::kIpv4) return Gid::from_ipv4({192, 0, 2, host});
  Gid gid{};
  gid.bytes = {0x20, 0x01, 0x0d, 0xb8};
  gid.bytes[15] = host;
  return gid;
}

wire::Path path_from(StagedCapture::From from, StagedCapture::Network network) {
  const Gid client = gid_of(network, 1);
  const Gid server = gid_of(network, 2);
  const bool forth = from == StagedCapture::From::kClient;
  return {.source_mac = {{2, 0, 0, 0, 0, forth ? uint8_t{1} : uint8_t{2}}},
          .destination_mac = {{2, 0, 0, 0, 0, forth ? uint8_t{2} : uint8_t{1}}},
          .source = forth ? client : server,
          .destination = forth ? server : client};
}

bool is_ipv4(const Frame& frame) { return wire::load_be16(frame.data() + 12) == wire::kEtherTypeIpv4; }

void identify(Frame& frame, uint16_t identification) {
  if (!is_ipv4(frame)) return;
  std::byte* const ip = frame.data() + kIp;
  wire::store_be16(ip + 4, identification);
  wire::store_be16(ip + 10, 0);
  const auto checksum = static_cast<uint16_t>(~wire::fold_sum(wire::add_words({ip, wire::kIpv4Bytes})));
  std::memcpy(ip + 10, &checksum, sizeof checksum);
}

}  // namespace

wire::Headers& StagedCapture::add(From from, wire::Operation operation, uint32_t psn,
                                  uint32_t payload_bytes) {
  return add(from, wire::Opcode::make(wire::Service::kRc, operation), psn, payload_bytes);
}

wire::Headers& StagedCapture::add(From from, wire::Opcode opcode, uint32_t psn, uint32_t payload_bytes) {
  finish();
  pending_ = {.from = from, .headers = {}, .payload_bytes = payload_bytes};
  pending_.headers.bth.opcode = opcode;
  pending_.headers.bth.psn = Psn(psn);
  pending_.headers.bth.destination = {from == From::kClient ? 0x22u : 0x11u};
  is_pending_ = true;
  now_ns_ += 10'000 + std::exchange(pause_ns_, 0);
  return pending_.headers;
}

void StagedCapture::finish() {
  if (!std::exchange(is_pending_, false)) return;
  wire::FrameTemplate path(path_from(pending_.from, network_));
  path.set_peer(0xFFFF, pending_.headers.bth.destination, false);
  const wire::Opcode opcode = pending_.headers.bth.opcode;
  Frame frame(wire::frame_bytes(path, opcode, pending_.payload_bytes));
  std::byte* const payload = wire::write_headers(frame, path, pending_.headers, pending_.payload_bytes);
  std::memset(payload, 0x5A, pending_.payload_bytes);
  wire::finish_frame(frame, path, opcode, pending_.payload_bytes);
  identify(frame, identification_++);
  renew_icrc(frame);
  records_.push_back({.frame = std::move(frame), .time_ns = now_ns_});
}

void StagedCapture::change(const std::function<void(std::byte* bth)>& how) {
  finish();
  how(records_.back().frame.data() + kBth);
  renew_icrc(records_.back().frame);
}

void StagedCapture::damage(size_t from_the_end) {
  finish();
  Frame& frame = records_.back().frame;
  frame[frame.size() - from_the_end] ^= std::byte{0x40};
}

void StagedCapture::again(int64_t later_ns) {
  finish();
  captures::Record copy = records_.back();
  now_ns_ += later_ns;
  copy.time_ns = now_ns_;
  identify(copy.frame, identification_++);
  renew_icrc(copy.frame);
  records_.push_back(std::move(copy));
}

void StagedCapture::aggregate(size_t packets, uint16_t identification) {
  finish();
  const auto first = records_.end() - static_cast<long>(packets);
  const bool ipv4 = is_ipv4(first->frame);
  const size_t headers = kIp + (ipv4 ? wire::kIpv4Bytes : wire::kIpv6Bytes) + wire::kUdpBytes;
  for (size_t i = 0; i < packets; ++i) {
    identify(first[static_cast<long>(i)].frame, static_cast<uint16_t>(identification + i));
    renew_icrc(first[static_cast<long>(i)].frame);
  }
  Frame& whole = first->frame;
  for (auto packet = first + 1; packet != records_.end(); ++packet)
    whole.insert(whole.end(), packet->frame.begin() + static_cast<long>(headers), packet->frame.end());
  const size_t payload = whole.size() - headers;
  const uint32_t kind = ipv4 ? drivers::RoceHeaders::kIpv4 : drivers::RoceHeaders::kIpv6;
  drivers::RoceHeaders::set(whole.data(), kind, payload, identification,
                            drivers::RoceHeaders::pseudo_sum(whole.data(), kind, payload));
  records_.erase(first + 1, records_.end());
}

std::vector<captures::Record>& StagedCapture::records() {
  finish();
  return records_;
}

uint32_t StagedCapture::converse() {
  using enum wire::Operation;
  add(From::kClient, kSendOnly, 100, 61).bth.ack_request = true;
  add(From::kServer, kAcknowledge, 100).aeth = wire::Aeth::ack(1);
  add(From::kClient, kWriteFirst, 101, kMtu).reth = {0x1000, {0x203}, 2 * kMtu + 7};
  add(From::kClient, kWriteMiddle, 102, kMtu);
  add(From::kClient, kWriteLast, 103, 7).bth.ack_request = true;
  add(From::kServer, kAcknowledge, 103).aeth = wire::Aeth::ack(2);
  add(From::kClient, kReadRequest, 104).reth = {0x4000, {0x203}, 2 * kMtu + 1};
  add(From::kServer, kReadResponseFirst, 104, kMtu);
  add(From::kServer, kReadResponseMiddle, 105, kMtu);
  add(From::kServer, kReadResponseLast, 106, 1);
  add(From::kClient, kFetchAdd, 107).atomic = {0x8000, {0x203}, 1, 0};
  add(From::kServer, kAtomicAcknowledge, 107);
  return 108;
}

void renew_icrc(Frame& frame) {
  const bool ipv4 = is_ipv4(frame);
  const size_t ip_bytes = ipv4 ? wire::load_be16(frame.data() + kIp + 2)
                               : wire::kIpv6Bytes + wire::load_be16(frame.data() + kIp + 4);
  wire::append_icrc(frame.data() + kIp, ip_bytes - wire::kIcrcBytes);
}

void change_message(Frame& frame, const std::function<void(wire::CmMad&)>& how) {
  wire::Packet packet;
  wire::CmMad mad;
  if (wire::parse_frame(frame, packet).result != wire::ParseResult::kRoce ||
      wire::parse_cm(packet.payload, mad) != wire::CmParse::kOk)
    throw std::runtime_error("no message of the connection manager");
  how(mad);
  wire::write_cm(const_cast<std::byte*>(packet.payload.data()), mad);
  renew_icrc(frame);
}

Outcome decoded(const std::vector<captures::Record>& records, uint32_t bytes_max) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("uroce-decode-test." + std::to_string(getpid()));
  pcap_t* const form = pcap_open_dead_with_tstamp_precision(DLT_EN10MB, 1 << 16, PCAP_TSTAMP_PRECISION_NANO);
  pcap_dumper_t* const out = pcap_dump_open(form, path.c_str());
  if (out == nullptr) throw std::runtime_error(pcap_geterr(form));
  for (const captures::Record& record : records) {
    const auto bytes = static_cast<uint32_t>(record.frame.size());
    const pcap_pkthdr header{.ts = {.tv_sec = 1'700'000'000 + record.time_ns / 1'000'000'000,
                                    .tv_usec = record.time_ns % 1'000'000'000},
                             .caplen = std::min(bytes, bytes_max),
                             .len = bytes};
    pcap_dump(reinterpret_cast<u_char*>(out), &header, reinterpret_cast<const u_char*>(record.frame.data()));
  }
  pcap_dump_close(out);
  pcap_close(form);

  auto file = CaptureFile::open(path);
  std::filesystem::remove(path);
  if (!file) throw std::runtime_error(file.error().message);
  Outcome outcome;
  Connections connections({.low = 1, .high = 2});
  outcome.totals = decode(*file,
                          {.lines = Lines::kYes,
                           .threads = 2,
                           .on_frame =
                               [&](const Inspected& packet, const std::string& note) {
                                 for (Finding finding : packet.findings) {
                                   if (finding.frame == 0) finding.frame = packet.number;
                                   outcome.findings.push_back(std::move(finding));
                                 }
                                 outcome.notes.push_back(note);
                                 return true;
                               }},
                          connections);
  if (!file->trouble().empty()) throw std::runtime_error(file->trouble());
  outcome.streams = connections.streams().size();
  for (const Stream& stream : connections.streams()) {
    outcome.not_captured += stream.requests.not_captured();
    outcome.one_sided += connections.is_one_sided(stream) ? 1 : 0;
  }
  return outcome;
}

}  // namespace uroce::decode
