#include "perf/end_to_end/bare_end.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <stdexcept>
#include <thread>

#include "drivers/registry.h"
#include "wire/frame.h"

namespace uroce::perf {
namespace {

constexpr Gid kFrom = Gid::from_ipv4({192, 0, 2, 1});
constexpr Gid kTo = Gid::from_ipv4({192, 0, 2, 2});

}  // namespace

/// With a name that a profiler finds.
[[gnu::noinline]] uint32_t crc_of(const std::byte* bytes, size_t count);
uint32_t crc_of(const std::byte* bytes, size_t count) {
  return crc32_gzip_refl(0, reinterpret_cast<const unsigned char*>(bytes), count);
}

BareEnd::BareEnd(const port::Specification& specification) : memory_(kMemoryBytes) {
  other_.bytes.fill(0xFF);
  auto opened = drivers::open_port(specification);
  if (!opened) throw std::runtime_error(opened.error().message);
  port_ = std::move(*opened);
  queue_ = &port_->queue(0);
  port_->follow_addresses({&kTo, 1});
}

void BareEnd::wait_for_link(std::chrono::seconds limit) {
  using Clock = std::chrono::steady_clock;
  for (const auto start = Clock::now(); !port_->link_up() || port_->far_end() == port::FarEnd::kAway;) {
    if (Clock::now() - start > limit) throw std::runtime_error("the link does not come up");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// Everything before the BareHeader of a frame of `bytes`, and no more than kHeaderBytes: of UDP to the far
/// end's MAC, as the stack sends. A kernel drops broadcasts of a protocol that it does not know sooner.
void BareEnd::make_headers(std::byte* to, uint32_t bytes) const {
  static_assert(kHeaderBytes >= BareHeader::kOffset + wire::kBthBytes);
  const wire::FrameTemplate headers({.source_mac = port_->capabilities().mac,
                                     .destination_mac = other_,
                                     .source = kFrom,
                                     .destination = kTo});
  headers.write(to, static_cast<uint32_t>(bytes - BareHeader::kOffset));
}

uint16_t BareEnd::send(const BareHeader& first, uint32_t bytes, uint16_t count) {
  std::array<std::byte, kHeaderBytes> headers;
  make_headers(headers.data(), bytes);
  std::array<port::TxFrame, kBurst> frames;
  const std::span<port::TxFrame> wanted(frames.data(), count);
  const uint16_t got = queue_->allocate(wanted);
  for (uint16_t i = 0; i < got; ++i) {
    std::memcpy(frames[i].data, headers.data(), headers.size());
    BareHeader header = first;
    header.number += i;
    fill(frames[i], header, bytes);
  }
  const uint16_t sent = queue_->transmit(wanted.first(got));
  if (sent < got) queue_->free(wanted.subspan(sent, static_cast<size_t>(got - sent)));
  return sent;
}

/// All behind the headers.
void BareEnd::fill(port::TxFrame& frame, const BareHeader& header, uint32_t bytes) {
  std::memcpy(frame.data + BareHeader::kOffset, &header, sizeof(header));
  if (header.treatment != Treatment::kBare)
    std::memcpy(frame.data + kHeaderBytes, slot(header.number, bytes), bytes - kHeaderBytes);
  if (header.treatment == Treatment::kPlaced) {
    const uint32_t crc = crc_of(frame.data, bytes - sizeof(uint32_t));
    std::memcpy(frame.data + bytes - sizeof(crc), &crc, sizeof(crc));
  }
  frame.length = bytes;
}

void BareEnd::send_one(const BareHeader& header, uint32_t bytes) {
  if (header.acknowledged) return send_acknowledged(header, bytes);
  while (send(header, bytes, 1) == 0) {
  }
}

void BareEnd::send_acknowledged(const BareHeader& header, uint32_t bytes) {
  std::array<std::byte, kHeaderBytes> headers;
  make_headers(headers.data(), bytes);
  std::array<port::TxFrame, 2> both;
  const std::span<port::TxFrame> frames(both);
  for (size_t got = 0; got < both.size();) got += queue_->allocate(frames.subspan(got));
  for (const port::TxFrame& frame : both) std::memcpy(frame.data, headers.data(), headers.size());
  fill(both[0], header, bytes);
  fill(both[1], {.kind = Kind::kAcknowledgement, .treatment = Treatment::kPlaced}, kAcknowledgementBytes);
  for (size_t sent = 0; sent < both.size();) sent += queue_->transmit(frames.subspan(sent));
}

void BareEnd::greet(const port::RxFrame& frame) {
  std::memcpy(other_.bytes.data(), frame.data + other_.bytes.size(), other_.bytes.size());
  greeted_ = true;
}

void BareEnd::store(const BareHeader& header, const port::RxFrame& frame) {
  if (header.treatment == Treatment::kPlaced) return place(header, frame);
  if (header.treatment == Treatment::kCopied)
    std::memcpy(slot(header.number, frame.length), frame.data + kHeaderBytes, frame.length - kHeaderBytes);
}

void BareEnd::place(const BareHeader& header, const port::RxFrame& frame) {
  uint32_t crc = 0;
  const size_t covered = frame.length - sizeof(crc);
  std::memcpy(&crc, frame.data + covered, sizeof(crc));
  if (crc != crc_of(frame.data, covered)) throw std::runtime_error("a CRC is wrong");
  const size_t lines = (covered - kHeaderBytes) / 64;
  if (lines > 0) region_.place(header.number, frame.data + kHeaderBytes, lines * 64);
}

std::byte* BareEnd::slot(uint64_t number, uint32_t bytes) {
  return memory_.data() + number % kSlots * std::min<size_t>((bytes + 63) / 64 * 64, 16384);
}

}  // namespace uroce::perf
