#include "drivers/port/xdp/xdp_socket.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "base/tables/memory_calls.h"

namespace uroce::drivers {
namespace {

Error failed(const std::string& what) { return {errno, what + ": " + std::strerror(errno)}; }

template <typename Value>
bool set(int socket, int option, const Value& value) {
  return setsockopt(socket, SOL_XDP, option, &value, sizeof value) == 0;
}

}  // namespace

/// Flags are the first thing that the kernel looks at: unknown ones are EINVAL. Only ENODEV says that it went
/// on to the interface, of which there is none with the number 0.
bool XdpSocket::has_long_frames() {
  const int descriptor = ::socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return false;
  sockaddr_xdp nowhere{};
  nowhere.sxdp_family = AF_XDP;
  nowhere.sxdp_flags = kXdpUseSg;
  const bool known =
      bind(descriptor, reinterpret_cast<const sockaddr*>(&nowhere), sizeof nowhere) != 0 && errno == ENODEV;
  close(descriptor);
  return known;
}

Result<std::unique_ptr<XdpSocket>> XdpSocket::open(const Place& place, FrameMemory& memory,
                                                   const XdpSocket* first) {
  auto descriptor =
      UninheritedDescriptor::opened([] { return Descriptor(::socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0)); });
  if (!descriptor.ok()) return failed("the kernel gives no AF_XDP socket");
  std::unique_ptr<XdpSocket> socket(new XdpSocket(memory, std::move(descriptor)));
  if (first == nullptr) {
    if (const Status shared = socket->share_memory(); !shared) return shared.error();
  }
  if (const Status rings = socket->make_rings(); !rings) return rings.error();
  if (const Status bound = socket->bind_to(place, first); !bound) return bound.error();
  // The flag lies beside the consumer's number (see fill()), and only drivers that receive without a copy set
  // it.
  socket->wakes_receiver_ = socket->zero_copy();
  return socket;
}

XdpSocket::~XdpSocket() {
  for (size_t i = 0; i < mapped_; ++i) unmap_memory(mappings_[i].first, mappings_[i].bytes);
}

Status XdpSocket::share_memory() {
  xdp_umem_reg memory{};
  memory.addr = reinterpret_cast<uintptr_t>(memory_.base());
  memory.len = memory_.bytes();
  memory.chunk_size = FrameMemory::kChunkBytes;
  if (set(socket_.get(), XDP_UMEM_REG, memory)) return {};
  if (errno == ENOBUFS)
    return Error{ENOBUFS, "RLIMIT_MEMLOCK is below the " + std::to_string(memory_.bytes() >> 20) +
                              " MB of its frames (CAP_IPC_LOCK, or a higher limit, is needed)"};
  return failed("the kernel does not take the memory of its frames");
}

template <typename Entry>
Status XdpSocket::map_ring(XdpRing<Entry>& ring, const xdp_ring_offset& offset, uint64_t where) {
  const size_t bytes = offset.desc + kRingSize * sizeof(Entry);
  const long mapped = syscall(SYS_mmap, nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                              socket_.get(), static_cast<off_t>(where));
  if (mapped == -1) return failed("its rings cannot be mapped");
  auto* const first = reinterpret_cast<std::byte*>(mapped);
  advise_memory(first, bytes, MADV_DONTFORK);  // a mapping keeps the socket open
  mappings_[mapped_++] = {.first = first, .bytes = bytes};
  ring.producer = reinterpret_cast<uint32_t*>(first + offset.producer);
  ring.consumer = reinterpret_cast<uint32_t*>(first + offset.consumer);
  ring.flags = reinterpret_cast<uint32_t*>(first + offset.flags);
  ring.entries = reinterpret_cast<Entry*>(first + offset.desc);
  return {};
}

Status XdpSocket::make_rings() {
  for (const int ring : {XDP_UMEM_FILL_RING, XDP_UMEM_COMPLETION_RING, XDP_RX_RING, XDP_TX_RING})
    if (!set(socket_.get(), ring, kRingSize)) return failed("the kernel makes no ring");
  xdp_mmap_offsets offsets{};
  socklen_t bytes = sizeof offsets;
  if (getsockopt(socket_.get(), SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &bytes) != 0 || bytes != sizeof offsets)
    return Error{ENOTSUP, "this kernel's AF_XDP is too old (5.4 is needed)"};
  Status status = map_ring(fill_, offsets.fr, XDP_UMEM_PGOFF_FILL_RING);
  if (status) status = map_ring(completed_, offsets.cr, XDP_UMEM_PGOFF_COMPLETION_RING);
  if (status) status = map_ring(received_, offsets.rx, XDP_PGOFF_RX_RING);
  if (status) status = map_ring(sent_, offsets.tx, XDP_PGOFF_TX_RING);
  return status;
}

Status XdpSocket::bind_to(const Place& place, const XdpSocket* first) {
  sockaddr_xdp address{};
  address.sxdp_family = AF_XDP;
  address.sxdp_ifindex = place.interface_index;
  address.sxdp_queue_id = place.queue;
  // Without either flag the kernel takes zero-copy where the driver has it.
  address.sxdp_flags = static_cast<uint16_t>(XDP_USE_NEED_WAKEUP | (place.generic ? XDP_COPY : 0) |
                                             (place.long_frames ? kXdpUseSg : 0));
  if (first != nullptr) {  // the rest is as the first one's
    address.sxdp_flags = XDP_SHARED_UMEM;
    address.sxdp_shared_umem_fd = static_cast<uint32_t>(first->socket_.get());
  }
  const auto taken = [&] {
    return bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  };
  // A child that has just been forked holds the queue until it has run its handler: waited for up to 200 ms.
  constexpr int kAttemptsMax = 40;
  constexpr std::chrono::milliseconds kBetween{5};
  bool bound = taken();
  for (int i = 0; !bound && errno == EBUSY && i < kAttemptsMax; ++i) {
    std::this_thread::sleep_for(kBetween);
    bound = taken();
  }
  if (bound) return {};
  const std::string queue = "queue " + std::to_string(place.queue);
  if (errno == EBUSY) return Error{EBUSY, queue + " has an AF_XDP socket of another program"};
  return failed("no AF_XDP socket can be on " + queue);
}

bool XdpSocket::zero_copy() const {
  xdp_options options{};
  socklen_t bytes = sizeof options;
  return getsockopt(socket_.get(), SOL_XDP, XDP_OPTIONS, &options, &bytes) == 0 &&
         (options.flags & XDP_OPTIONS_ZEROCOPY) != 0;
}

uint64_t XdpSocket::dropped() const {
  xdp_statistics counted{};
  socklen_t bytes = sizeof counted;
  if (getsockopt(socket_.get(), SOL_XDP, XDP_STATISTICS, &counted, &bytes) != 0) return 0;
  return counted.rx_dropped + counted.rx_ring_full + counted.rx_fill_ring_empty_descs;
}

/// The ring has room for all that came back, so its consumer's number need not be read: the CPU that receives
/// writes it for each frame, and on a veth that is the sender's, which would wait for its cache line.
void XdpSocket::fill(FreeChunks& chunks) {
  constexpr uint32_t kAtOnceMin = 64;
  if (unfilled_ < kAtOnceMin) return;
  uint32_t given = 0;
  uint64_t chunk = 0;
  for (; given < unfilled_ && chunks.take(chunk); ++given) fill_.at(filled_ + given, kRingSize) = chunk;
  if (given == 0) return;
  filled_ += given;
  unfilled_ -= given;
  __atomic_store_n(fill_.producer, filled_, __ATOMIC_RELEASE);  // pairs with the kernel's acquire
}

void XdpSocket::collect(FreeChunks& chunks) {
  // Pairs with the kernel's release of the addresses.
  const uint32_t end = __atomic_load_n(completed_.producer, __ATOMIC_ACQUIRE);
  if (end == collected_) return;
  for (; collected_ != end; ++collected_) {
    const uint64_t piece = completed_.at(collected_, kRingSize);
    if (memory_.note_sent(piece)) chunks.put(memory_.chunk_of(piece));
  }
  // Pairs with the kernel's acquire before it writes there again.
  __atomic_store_n(completed_.consumer, collected_, __ATOMIC_RELEASE);
}

size_t XdpSocket::room() {
  // Pairs with the kernel's release of what it has read.
  const uint32_t pieces = kRingSize - (queued_ - __atomic_load_n(sent_.consumer, __ATOMIC_ACQUIRE));
  return pieces / memory_.pieces_max();
}

void XdpSocket::send(uint64_t address, uint32_t length) {
  const auto in_chunk =
      static_cast<uint32_t>(FrameMemory::kChunkBytes - (address & (FrameMemory::kChunkBytes - 1)));
  uint32_t left = length;
  if (length > in_chunk) {
    memory_.note_second_piece(address);
    sent_.at(queued_++, kRingSize) = {.addr = address, .len = in_chunk, .options = kXdpPacketContinues};
    address += in_chunk;
    left -= in_chunk;
  }
  sent_.at(queued_++, kRingSize) = {.addr = address, .len = left, .options = 0};
}

bool XdpSocket::all_sent() const {
  return __atomic_load_n(sent_.consumer, __ATOMIC_RELAXED) == queued_;  // a number alone
}

void XdpSocket::flush() {
  if (__atomic_load_n(sent_.producer, __ATOMIC_RELAXED) != queued_)  // ours
    __atomic_store_n(sent_.producer, queued_, __ATOMIC_RELEASE);     // pairs with the kernel's acquire
  if (all_sent()) return;
  // Relaxed: a wish that is seen late is seen at the next call.
  if ((__atomic_load_n(sent_.flags, __ATOMIC_RELAXED) & XDP_RING_NEED_WAKEUP) == 0) return;
  // The kernel takes some at a time (EAGAIN), until its socket has no buffer left (ENOBUFS) or the device is
  // busy.
  constexpr int kCallsMax = 8;
  for (int i = 0; i < kCallsMax && !all_sent(); ++i) {
    // One writer; readers need a whole value.
    __atomic_store_n(&transmit_calls_, transmit_calls_ + 1, __ATOMIC_RELAXED);
    if (sendto(socket_.get(), nullptr, 0, MSG_DONTWAIT, nullptr, 0) < 0 && errno != EAGAIN) return;
  }
}

void XdpSocket::wake_receiver() {
  if (!wakes_receiver_) return;
  // Relaxed: as above.
  if ((__atomic_load_n(fill_.flags, __ATOMIC_RELAXED) & XDP_RING_NEED_WAKEUP) == 0) return;
  (void)recvfrom(socket_.get(), nullptr, 0, MSG_DONTWAIT, nullptr, nullptr);
}

}  // namespace uroce::drivers
