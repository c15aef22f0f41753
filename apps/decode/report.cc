#include "apps/decode/report.h"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "wire/address_text.h"

namespace uroce::decode {
namespace {

using nlohmann::json;

json as_json(const Findings& findings, uint64_t number) {
  json all = json::array();
  for (const Finding& finding : findings)
    all.push_back({{"rule", name_of(finding.rule)},
                   {"frame", finding.frame == 0 ? number : finding.frame},
                   {"what", finding.what}});
  return all;
}

json as_json(const Stream& stream) {
  const FlowCounts& counts = stream.counts;
  json one = {{"source", wire::to_text(stream.source)},
              {"destination", wire::to_text(stream.destination)},
              {"qp", stream.qp.value},
              {"packets", counts.packets},
              {"bytes", counts.bytes},
              {"retransmissions", counts.retransmissions},
              {"duplicates", counts.duplicates},
              {"late", counts.late},
              {"missing", counts.missing},
              {"sequence_naks", counts.sequence_naks},
              {"rnr_naks", counts.rnr_naks},
              {"fatal_naks", counts.fatal_naks},
              {"not_captured", stream.requests.not_captured()}};
  if (*stream.mtu != 0) one["path_mtu"] = *stream.mtu;
  if (stream.peer != nullptr) one["peer_qp"] = stream.peer->qp.value;
  return one;
}

/// What the capture lacks, in words; empty: nothing that can be seen.
std::string lacks_of(const Totals& totals, const Connections& connections) {
  uint64_t psns = 0;
  uint64_t one_sided = 0;
  for (const Stream& stream : connections.streams()) {
    psns += stream.requests.not_captured();
    one_sided += connections.is_one_sided(stream) ? 1 : 0;
  }
  std::string text;
  const auto add = [&](uint64_t count, const char* what) {
    if (count != 0)
      fmt::format_to(std::back_inserter(text), "{}{} {}", text.empty() ? "" : ", ", count, what);
  };
  add(totals.lost, "frames by its own count");
  add(totals.truncated, "frames but for their first bytes, so that their ICRCs are not checked");
  add(psns, "PSNs that were acknowledged");
  add(one_sided, "streams in the other direction");
  return text;
}

void add_stream(std::string& text, const Stream& stream) {
  const auto out = std::back_inserter(text);
  const FlowCounts& counts = stream.counts;
  fmt::format_to(out, "  {} > {} qp 0x{:06x}{}: {} packets", wire::to_text(stream.source),
                 wire::to_text(stream.destination), stream.qp.value,
                 stream.peer == nullptr ? "" : fmt::format(" from qp 0x{:06x}", stream.peer->qp.value),
                 counts.packets);
  const auto add = [&](uint64_t count, const char* what) {
    if (count != 0) fmt::format_to(out, ", {} {}", count, what);
  };
  add(*stream.mtu, "bytes of path MTU");
  add(counts.retransmissions, "retransmissions");
  add(counts.duplicates, "duplicates");
  add(counts.late, "late");
  add(counts.missing, "PSNs missing at first");
  add(stream.requests.not_captured(), "PSNs acknowledged and never captured");
  add(counts.sequence_naks, "sequence NAKs");
  add(counts.rnr_naks, "RNR NAKs");
  add(counts.fatal_naks, "fatal NAKs");
  text += '\n';
}

std::string segment_text(const Inspected& packet) {
  return packet.segment == 0 ? std::string() : fmt::format(".{}", packet.segment);
}

std::string lost_text(const Inspected& packet) {
  return packet.lost_before == 0 ? std::string()
                                 : fmt::format("the capture lost {} frames\n", packet.lost_before);
}

}  // namespace

bool Report::write(const std::string& text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
}

bool Report::frame(const Inspected& packet, const std::string& note) {
  if (!started_) start_ns_ = packet.time_ns;
  started_ = true;
  if (lines_ == Lines::kNo && packet.findings.empty()) return true;
  if (packet.kind == Inspected::Kind::kOther) return true;
  text_.clear();
  form_ == Form::kJson ? frame_as_json(packet, note) : frame_as_text(packet, note);
  return write(text_);
}

void Report::frame_as_text(const Inspected& packet, const std::string& note) {
  const auto out = std::back_inserter(text_);
  if (lines_ == Lines::kYes)
    fmt::format_to(out, "{}{}{} {:.6f} {}{}\n", lost_text(packet), packet.number, segment_text(packet),
                   static_cast<double>(packet.time_ns - start_ns_) / 1e9, packet.text,
                   note.empty() ? "" : " (" + note + ")");
  for (const Finding& finding : packet.findings)
    fmt::format_to(out, "! frame {}: {}: {}\n", finding.frame == 0 ? packet.number : finding.frame,
                   name_of(finding.rule), finding.what);
}

void Report::frame_as_json(const Inspected& packet, const std::string& note) {
  json one = {{"frame", packet.number},
              {"time_ns", packet.time_ns},
              {"findings", as_json(packet.findings, packet.number)}};
  if (packet.segment != 0) one["segment"] = packet.segment;
  if (packet.lost_before != 0) one["lost_before"] = packet.lost_before;
  if (lines_ == Lines::kYes) one["text"] = packet.text;
  if (!note.empty()) one["note"] = note;
  if (packet.row != nullptr && packet.kind == Inspected::Kind::kRoce) {
    one["opcode"] = packet.row->name;
    one["source"] = wire::to_text(packet.source);
    one["destination"] = wire::to_text(packet.destination);
    one["qp"] = packet.bth.destination.value;
    one["psn"] = packet.bth.psn.value();
    one["payload"] = packet.payload_bytes;
  }
  text_ = one.dump(-1, ' ', true, json::error_handler_t::replace) + "\n";
}

bool Report::summary(const std::string& file, const Totals& totals, const Connections& connections,
                     const std::string& trouble) {
  text_.clear();
  if (form_ == Form::kJson) {
    summary_as_json(file, totals, connections, trouble);
  } else if (lines_ == Lines::kNo) {
    summary_as_text(file, totals, connections);
  }
  started_ = false;
  return write(text_) && std::fflush(stdout) == 0;
}

void Report::summary_as_text(const std::string& file, const Totals& totals, const Connections& connections) {
  const auto out = std::back_inserter(text_);
  fmt::format_to(out, "{}: {} frames, {} bytes, {} of RoCEv2, {} malformed, {} cut, {} of other protocols\n",
                 file, totals.frames, totals.bytes, totals.roce, totals.malformed, totals.cut, totals.other);
  for (const Stream& stream : connections.streams()) add_stream(text_, stream);
  if (connections.not_followed() != 0)
    fmt::format_to(out, "  {} packets of more streams than {} were not followed\n",
                   connections.not_followed(), Connections::kStreamsMax);
  for (size_t i = 0; i < kRuleCount; ++i) {
    const auto rule = static_cast<Rule>(i);
    if (totals.by_rule[i] != 0)
      fmt::format_to(out, "  {} x {}: {}\n", totals.by_rule[i], name_of(rule), text_of(rule));
  }
  const std::string lacks = lacks_of(totals, connections);
  if (!lacks.empty()) fmt::format_to(out, "  the capture lacks {}\n", lacks);
  if (totals.findings() == 0)
    fmt::format_to(out, "  nothing is wrong with {}\n", lacks.empty() ? "it" : "what was captured");
}

void Report::summary_as_json(const std::string& file, const Totals& totals, const Connections& connections,
                             const std::string& trouble) {
  json streams = json::array();
  for (const Stream& stream : connections.streams()) {
    json& one = streams.emplace_back(as_json(stream));
    if (connections.is_one_sided(stream)) one["one_sided"] = true;
  }
  json rules = json::object();
  for (size_t i = 0; i < kRuleCount; ++i)
    if (totals.by_rule[i] != 0) rules[std::string(name_of(static_cast<Rule>(i)))] = totals.by_rule[i];
  json all = {{"file", file},
              {"frames", totals.frames},
              {"bytes", totals.bytes},
              {"roce", totals.roce},
              {"malformed", totals.malformed},
              {"cut", totals.cut},
              {"truncated", totals.truncated},
              {"lost", totals.lost},
              {"other", totals.other},
              {"findings", totals.findings()},
              {"rules", rules},
              {"streams", streams},
              {"not_followed", connections.not_followed()}};
  if (!trouble.empty()) all["trouble"] = trouble;
  text_ = all.dump(-1, ' ', true, json::error_handler_t::replace) + "\n";
}

}  // namespace uroce::decode
