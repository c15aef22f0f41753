// A ring for GSO frames has 1024 places of 32 KiB: with fewer, bursts of 64 queue pairs overflow it before
// the receiver has its turn, and a lost frame costs an ACK timeout (perf/run --only links). Smaller places
// cost one queue pair a third.
// TPACKET_V2 and not V3, which hands a block over when it is full or 1 ms old: a round trip would wait for
// that. Cost: 32 MB of kernel memory for a queue.
#include "drivers/port/packet/receive_ring.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/tables/memory_calls.h"
#include "drivers/port/packet/gso_header.h"

namespace uroce::drivers {
namespace {

// The kernel's own header, the address of the sender, alignment and what stands before a frame.
constexpr uint32_t kOverhead = 112;
constexpr uint32_t kFramesWanted = 512;
// The bursts of 64 queue pairs, which send before the receiver has its turn, fit.
constexpr uint32_t kLongFramesWanted = 1024;
constexpr uint32_t kLongFrame = 1u << 14;

Error failed(const std::string& what) { return {errno, what + ": " + std::strerror(errno)}; }

}  // namespace

ReceiveRing::~ReceiveRing() {
  if (memory_ != nullptr) unmap_memory(memory_, size_t{frames_ / per_block_} * block_bytes_);
}

Status ReceiveRing::make(int socket, uint32_t frame_bytes, bool tells_gso) {
  tells_gso_ = tells_gso;
  const int version = TPACKET_V2;
  if (setsockopt(socket, SOL_PACKET, PACKET_VERSION, &version, sizeof version) != 0)
    return failed("the kernel has no TPACKET_V2");
  constexpr uint32_t kAlignment = TPACKET_ALIGNMENT;
  frame_bytes_ = (frame_bytes + kOverhead + kAlignment - 1) / kAlignment * kAlignment;
  const bool is_long = frame_bytes > kLongFrame;
  block_bytes_ = is_long ? 1u << 20 : 1u << 16;
  per_block_ = block_bytes_ / frame_bytes_;
  const uint32_t wanted = is_long ? kLongFramesWanted : kFramesWanted;
  const uint32_t blocks = (wanted + per_block_ - 1) / per_block_;
  tpacket_req request{.tp_block_size = block_bytes_,
                      .tp_block_nr = blocks,
                      .tp_frame_size = frame_bytes_,
                      .tp_frame_nr = blocks * per_block_};
  if (setsockopt(socket, SOL_PACKET, PACKET_RX_RING, &request, sizeof request) != 0)
    return failed("the kernel gives no memory for a receive ring");
  const long mapped = syscall(SYS_mmap, nullptr, size_t{blocks} * block_bytes_, PROT_READ | PROT_WRITE,
                              MAP_SHARED, socket, off_t{0});
  if (mapped == -1) return failed("its receive ring cannot be mapped");
  memory_ = reinterpret_cast<std::byte*>(mapped);
  frames_ = request.tp_frame_nr;
  return {};
}

bool ReceiveRing::front(ArrivedFrame& frame) {
  for (;; next()) {
    const std::byte* const at = place(first_);
    const auto* const header = reinterpret_cast<const tpacket2_hdr*>(at);
    // Pairs with the kernel's release of the frame.
    const uint32_t status = __atomic_load_n(&header->tp_status, __ATOMIC_ACQUIRE);
    if ((status & TP_STATUS_USER) == 0) return false;
    const std::byte* const begin = at + header->tp_mac;
    GsoHeader gso{};
    if (tells_gso_) std::memcpy(&gso, begin - sizeof gso, sizeof gso);
    if (header->tp_snaplen < header->tp_len) {
      // The kernel's own TCP has longer ones than RoCE.
      if (gso.type == GsoHeader::kNone || gso.type == GsoHeader::kUdp) count_cut_off();
      continue;
    }
    frame = {.bytes = {begin, header->tp_snaplen}};
    if ((status & TP_STATUS_VLAN_VALID) != 0) frame.vlan_tci = header->tp_vlan_tci;
    if (!tells_gso_) return true;
    frame.segment_bytes = gso.type == GsoHeader::kNone ? uint16_t{0} : gso.segment_bytes;
    frame.udp = gso.type == GsoHeader::kUdp;
    constexpr uint16_t kChecksumOfUdp = 6;
    frame.checksum_is_left =
        (gso.flags & GsoHeader::kNeedsChecksum) != 0 && gso.checksum_offset == kChecksumOfUdp;
    return true;
  }
}

void ReceiveRing::next() {
  auto* const header = reinterpret_cast<tpacket2_hdr*>(place(first_));
  // Pairs with the kernel's acquire before it writes there again.
  __atomic_store_n(&header->tp_status, uint32_t{TP_STATUS_KERNEL}, __ATOMIC_RELEASE);
  first_ = first_ + 1 < frames_ ? first_ + 1 : 0;
}

}  // namespace uroce::drivers
