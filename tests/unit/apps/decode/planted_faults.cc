#include "planted_faults.h"

#include <functional>
#include <utility>

#include "wire/big_endian.h"
#include "wire/packet.h"

namespace uroce::decode {
namespace {

using From = StagedCapture::From;
using enum wire::Operation;
using enum StagedCapture::From;
constexpr uint32_t kMtu = StagedCapture::kMtu;

class Planter {
 public:
  /// Behind a whole conversation: `how` adds packets from the given PSN on, and the newest is wrong.
  void last(const char* what, Rule rule, const std::function<void(StagedCapture&, uint32_t)>& how) {
    earlier(what, rule, how, 0);
  }
  /// Not the newest is wrong, but one so many before it.
  void earlier(const char* what, Rule rule, const std::function<void(StagedCapture&, uint32_t)>& how,
               size_t before) {
    StagedCapture capture;
    how(capture, capture.converse());
    const auto& records = capture.records();
    faults_.push_back({what, rule, records, records.size() - before});
  }
  /// Bytes of a SEND Only, counted from its BTH, are others.
  void bytes(const char* what, Rule rule, const std::function<void(std::byte*)>& how) {
    last(what, rule, [&](StagedCapture& capture, uint32_t psn) {
      capture.add(kClient, kSendOnly, psn, 61);
      capture.change(how);
    });
  }
  /// A message of the golden connection of rping is another.
  void message(const char* what, Rule rule, size_t frame, const std::function<void(wire::CmMad&)>& how) {
    StagedCapture capture(rping());
    change_message(capture.records().at(frame - 1).frame, how);
    faults_.push_back({what, rule, capture.records(), frame});
  }
  static std::vector<captures::Record> rping() {
    for (const auto& file : captures::files())
      if (file.filename() == "cm_rping.pcap") return captures::records(file);
    return {};
  }
  void add(PlantedFault fault) { faults_.push_back(std::move(fault)); }
  std::vector<PlantedFault> take() { return std::move(faults_); }

 private:
  std::vector<PlantedFault> faults_;
};

void plant_in_fields(Planter& plant) {
  plant.last("a length of UDP that is not that of IP", Rule::kDropLengths,
             [](StagedCapture& capture, uint32_t psn) {
               capture.add(kClient, kSendOnly, psn, 61);
               capture.change([](std::byte* bth) { wire::store_be16(bth - 4, 61); });
             });
  plant.last("a wrong checksum of IPv4", Rule::kDropIp, [](StagedCapture& capture, uint32_t psn) {
    capture.add(kClient, kSendOnly, psn, 61);
    capture.change([](std::byte* bth) { bth[-18] ^= std::byte{1}; });
  });
  plant.bytes("an opcode that there is not", Rule::kDropTransport,
              [](std::byte* bth) { bth[0] = std::byte{0x1F}; });
  plant.bytes("version 1 of the transport", Rule::kDropTransport,
              [](std::byte* bth) { bth[1] |= std::byte{1}; });
  plant.last("a bit of the payload", Rule::kDropIcrc, [](StagedCapture& capture, uint32_t psn) {
    capture.add(kClient, kSendOnly, psn, 61);
    capture.damage(20);
  });
  plant.bytes("partition 0", Rule::kDropPartition, [](std::byte* bth) { wire::store_be16(bth + 2, 0x8000); });
  plant.bytes("bits behind BECN", Rule::kReservedFields, [](std::byte* bth) { bth[4] |= std::byte{1}; });
  plant.bytes("bits behind the ACK request", Rule::kReservedFields,
              [](std::byte* bth) { bth[8] |= std::byte{4}; });
  plant.bytes("a pad byte", Rule::kReservedFields, [](std::byte* bth) { bth[12 + 61] = std::byte{9}; });
  plant.last("an ACK that asks for one", Rule::kAckForm, [](StagedCapture& capture, uint32_t) {
    capture.add(kServer, kAcknowledge, 103).bth.ack_request = true;
  });
  plant.last("a solicited First", Rule::kSolicited, [](StagedCapture& capture, uint32_t psn) {
    capture.add(kClient, kSendFirst, psn, kMtu).bth.solicited = true;
  });
  plant.last("a reserved syndrome", Rule::kSyndromeKinds, [](StagedCapture& capture, uint32_t psn) {
    capture.add(kServer, kAcknowledge, psn - 1).aeth = {wire::AethKind::kReserved, 0, 1};
  });
  plant.last("a NAK that RC has not", Rule::kSyndromeKinds, [](StagedCapture& capture, uint32_t psn) {
    capture.add(kServer, kAcknowledge, psn - 1).aeth = {wire::AethKind::kNak, 5, 1};
  });
  plant.last("a response that is a NAK", Rule::kSyndromeKinds, [](StagedCapture& capture, uint32_t psn) {
    capture.add(kServer, kAtomicAcknowledge, psn - 1).aeth = wire::Aeth::nak(wire::NakCode::kRemoteAccess, 1);
  });
  plant.last("an atomic between words", Rule::kAtomicAligned, [](StagedCapture& capture, uint32_t psn) {
    capture.add(kClient, kCompareSwap, psn).atomic = {0x8004, {0x203}, 1, 2};
  });
  plant.last("an ATOMIC WRITE between words", Rule::kAtomicWrite, [](StagedCapture& capture, uint32_t psn) {
    capture.add(kClient, kAtomicWrite, psn, 8).reth = {0x8004, {0x203}, 8};
  });
  plant.last("a CNP without BECN", Rule::kCnp,
             [](StagedCapture& capture, uint32_t) { capture.add(kServer, wire::kCnpOpcode, 0); });
}

void plant_in_messages(Planter& plant) {
  plant.last("a First that is shorter than the path MTU", Rule::kPayload,
             [](StagedCapture& capture, uint32_t psn) { capture.add(kClient, kSendFirst, psn, kMtu / 2); });
  plant.last("an Only that is longer than the path MTU", Rule::kPayload,
             [](StagedCapture& capture, uint32_t psn) { capture.add(kClient, kSendOnly, psn, kMtu + 4); });
  plant.last("a WRITE that is shorter than it said", Rule::kAnnouncedLength,
             [](StagedCapture& capture, uint32_t psn) {
               capture.add(kClient, kWriteFirst, psn, kMtu).reth = {0x1000, {0x203}, kMtu + 8};
               capture.add(kClient, kWriteLast, psn + 1, 7);
             });
  plant.last("a WRITE Only that is longer than it said", Rule::kAnnouncedLength,
             [](StagedCapture& capture, uint32_t psn) {
               capture.add(kClient, kWriteOnly, psn, 9).reth = {0x1000, {0x203}, 8};
             });
  plant.last("a WRITE whose First is all of it", Rule::kAnnouncedLength,
             [](StagedCapture& capture, uint32_t psn) {
               capture.add(kClient, kWriteFirst, psn, kMtu).reth = {0x1000, {0x203}, kMtu};
             });
  plant.last("a READ of more than a message may have", Rule::kAnnouncedLength,
             [](StagedCapture& capture, uint32_t psn) {
               capture.add(kClient, kReadRequest, psn).reth = {0x1000, {0x203}, (1u << 31) + 1};
             });
  plant.last("a Middle without a First", Rule::kOrderOfPackets,
             [](StagedCapture& capture, uint32_t psn) { capture.add(kClient, kSendMiddle, psn, kMtu); });
  plant.last("an Only in the middle of a message", Rule::kOrderOfPackets,
             [](StagedCapture& capture, uint32_t psn) {
               capture.add(kClient, kSendFirst, psn, kMtu);
               capture.add(kClient, kSendOnly, psn + 1, 4);
             });
  plant.last("a SEND that goes on as a WRITE", Rule::kOrderOfPackets,
             [](StagedCapture& capture, uint32_t psn) {
               capture.add(kClient, kSendFirst, psn, kMtu);
               capture.add(kClient, kWriteLast, psn + 1, 4);
             });
  plant.last("a Last of UC without a First", Rule::kOrderOfPackets, [](StagedCapture& capture, uint32_t psn) {
    for (const uint32_t one : {psn, psn + 1}) {
      wire::Headers& headers = capture.add(
          kClient, wire::Opcode::make(wire::Service::kUc, one == psn ? kSendOnly : kSendLast), one, 4);
      headers.bth.destination = {0x99};
    }
  });
}

void plant_in_numbers(Planter& plant) {
  plant.last("another packet with the same PSN", Rule::kPsnPerPacket,
             [](StagedCapture& capture, uint32_t) { capture.add(kClient, kSendOnly, 103, 4); });
  plant.last("a request with the PSN of a READ's second response", Rule::kPsnBehindRead,
             [](StagedCapture& capture, uint32_t psn) {
               capture.add(kClient, kReadRequest, psn).reth = {0x4000, {0x203}, 3 * kMtu};
               capture.add(kClient, kSendOnly, psn + 1, 4);
             });
  plant.last("a READ of the rest from a wrong address", Rule::kDuplicateRead,
             [](StagedCapture& capture, uint32_t psn) {
               capture.add(kClient, kReadRequest, psn).reth = {0x4000, {0x203}, 3 * kMtu};
               capture.add(kClient, kReadRequest, psn + 1).reth = {0x4100, {0x203}, 2 * kMtu};
             });
  plant.earlier(
      "an ACK of what was not sent", Rule::kAckImpossible,
      [](StagedCapture& capture, uint32_t psn) {
        capture.add(kServer, kAcknowledge, psn + 2).aeth = wire::Aeth::ack(9);
        capture.add(kClient, kSendOnly, psn, 4);
        capture.add(kServer, kAcknowledge, psn).aeth = wire::Aeth::ack(5);
      },
      2);
  plant.last("a READ response to a WRITE", Rule::kAckImpossible,
             [](StagedCapture& capture, uint32_t) { capture.add(kServer, kReadResponseOnly, 102, 4); });
  plant.last("an atomic's response to a READ", Rule::kAckImpossible,
             [](StagedCapture& capture, uint32_t) { capture.add(kServer, kAtomicAcknowledge, 104); });
  plant.last("a Last response that is too short", Rule::kResponseLength,
             [](StagedCapture& capture, uint32_t psn) {
               capture.add(kClient, kReadRequest, psn).reth = {0x4000, {0x203}, kMtu + 8};
               capture.add(kServer, kReadResponseFirst, psn, kMtu);
               capture.add(kServer, kReadResponseLast, psn + 1, 4);
             });
  plant.last("a Last response too early", Rule::kResponseLength, [](StagedCapture& capture, uint32_t psn) {
    capture.add(kClient, kReadRequest, psn).reth = {0x4000, {0x203}, 3 * kMtu};
    capture.add(kServer, kReadResponseFirst, psn, kMtu);
    capture.add(kServer, kReadResponseLast, psn + 1, kMtu);
  });
  plant.last("an ACK behind a NAK that ends the connection", Rule::kAfterError,
             [](StagedCapture& capture, uint32_t psn) {
               capture.add(kClient, kSendOnly, psn, 4);
               capture.add(kClient, kSendOnly, psn + 1, 4);
               capture.add(kServer, kAcknowledge, psn).aeth =
                   wire::Aeth::nak(wire::NakCode::kRemoteAccess, 4);
               capture.add(kServer, kAcknowledge, psn + 1).aeth = wire::Aeth::ack(6);
             });
  plant.last("a SEND again before the RNR NAK's time is over", Rule::kRnrWait,
             [](StagedCapture& capture, uint32_t psn) {
               capture.add(kClient, kSendOnly, psn, 4);
               capture.add(kServer, kAcknowledge, psn).aeth = wire::Aeth::rnr(20, 4);  // 10.24 ms
               capture.wait(1'000'000);
               capture.add(kClient, kSendOnly, psn, 4);
             });
}

/// Of the conversation, 103 is the last PSN of a WRITE, 104 to 106 are those of a READ, 107 is an atomic's.
void plant_in_acknowledgements(Planter& plant) {
  for (const uint32_t named : {104u, 106u, 107u}) {
    plant.last("an ACK that names a READ or an atomic for a WRITE that came again", Rule::kAckNamesResponse,
               [&](StagedCapture& capture, uint32_t) {
                 capture.add(kClient, kWriteLast, 103, 7).bth.ack_request = true;
                 capture.add(kServer, kAcknowledge, named).aeth = wire::Aeth::ack(4);
               });
  }
  // The READ's response is lost, and rxe takes the ACK for its completion.
  plant.last("an ACK that names a READ without a response", Rule::kAckNamesResponse,
             [](StagedCapture& capture, uint32_t psn) {
               capture.add(kClient, kSendOnly, psn, 4);
               capture.add(kClient, kReadRequest, psn + 1).reth = {0x4000, {0x203}, 64};
               capture.add(kServer, kAcknowledge, psn + 1).aeth = wire::Aeth::ack(6);
             });
  plant.last("an ACK that names an ATOMIC WRITE", Rule::kAckNamesResponse,
             [](StagedCapture& capture, uint32_t psn) {
               capture.add(kClient, kAtomicWrite, psn, 8).reth = {0x4000, {0x203}, 8};
               capture.add(kServer, kAcknowledge, psn).aeth = wire::Aeth::ack(5);
             });
  plant.last("an ACK of XRC that names an atomic", Rule::kAckNamesResponse,
             [](StagedCapture& capture, uint32_t) {
               const auto of_xrc = [](wire::Operation operation) {
                 return wire::Opcode::make(wire::Service::kXrc, operation);
               };
               capture.add(kClient, of_xrc(kCompareSwap), 900).bth.destination = {0x99};
               wire::Headers& headers = capture.add(kServer, of_xrc(kAcknowledge), 900);
               headers.bth.destination = {0x98};
               headers.aeth = wire::Aeth::ack(1);
             });
}

/// In frames 1 to 3 of rping: REQ, REP, RTU. Its end: DREQ and DREP, the last but one and the last of them.
void plant_in_management(Planter& plant) {
  const size_t frames = Planter::rping().size();
  plant.message("a REP of another transaction", Rule::kCmHandshake, 2,
                [](wire::CmMad& mad) { mad.transaction_id ^= 1; });
  plant.message("a RTU to another number", Rule::kCmHandshake, 3,
                [](wire::CmMad& mad) { std::get<wire::CmRtu>(mad.message).remote.value ^= 1; });
  plant.message("a path MTU that there is not", Rule::kCmFields, 1,
                [](wire::CmMad& mad) { std::get<wire::CmReq>(mad.message).path_mtu = 9; });
  plant.message("other addresses than the datagram's", Rule::kCmFields, 1, [](wire::CmMad& mad) {
    std::get<wire::CmReq>(mad.message).primary.local_gid.bytes[15] ^= 1;
  });
  for (size_t frame = 1; frame <= frames; ++frame) {
    auto records = Planter::rping();
    wire::Packet packet;
    wire::CmMad mad;
    wire::parse_frame(records[frame - 1].frame, packet);
    if (wire::parse_cm(packet.payload, mad) != wire::CmParse::kOk) continue;
    if (std::holds_alternative<wire::CmDreq>(mad.message)) {
      plant.message("a DREQ for another queue pair", Rule::kCmEnd, frame,
                    [](wire::CmMad& one) { std::get<wire::CmDreq>(one.message).remote_qp.value ^= 1; });
    } else if (std::holds_alternative<wire::CmDrep>(mad.message)) {
      plant.message("a DREP of another transaction", Rule::kCmEnd, frame,
                    [](wire::CmMad& one) { one.transaction_id ^= 1; });
    }
  }
  auto records = Planter::rping();
  constexpr size_t kMad = 14 + 20 + 8 + 12 + 8;
  records[0].frame[kMad] = std::byte{2};  // the base version
  renew_icrc(records[0].frame);
  plant.add({"a datagram of another version", Rule::kCmDatagram, std::move(records), 1});

  auto wrong_start = Planter::rping();
  change_message(wrong_start[1].frame, [](wire::CmMad& mad) {
    wire::CmRep& rep = std::get<wire::CmRep>(mad.message);
    rep.starting_psn = rep.starting_psn + 5;
  });
  plant.add(
      {"a first request before the PSN that was agreed on", Rule::kPsnExpected, std::move(wrong_start), 4});
}

}  // namespace

std::vector<PlantedFault> planted_faults() {
  Planter plant;
  plant_in_fields(plant);
  plant_in_messages(plant);
  plant_in_numbers(plant);
  plant_in_acknowledgements(plant);
  plant_in_management(plant);
  return plant.take();
}

}  // namespace uroce::decode
