#pragma once

#include <infiniband/urocedv.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/keys/end.h"

namespace uroce::keys {

/// Memory that regions are made in, mapped for DMA as one piece. Regions never cover its first and last page.
class Arena {
 public:
  static constexpr size_t kPage = 4096;
  static constexpr size_t kPages = 16;

  explicit Arena(ibv_context* context);

  [[nodiscard]] std::span<std::byte> bytes() { return {memory_.get(), kPage * kPages}; }
  [[nodiscard]] std::span<std::byte> piece(size_t page, size_t offset, size_t length) {
    return bytes().subspan(page * kPage + offset, length);
  }
  [[nodiscard]] uint64_t bus_address(std::span<const std::byte> piece) const {
    return bus_ + static_cast<uint64_t>(piece.data() - memory_.get());
  }

  /// Throws when a region is left that covers it.
  void unmap();

 private:
  ibv_context* context_;
  client::Buffer memory_;
  uint64_t bus_ = 0;
};

/// What the peer is told of, and how it ends.
struct Region {
  uint64_t address = 0;
  uint32_t key = 0;
  /// The memory that it lies in, in the order of its addresses.
  std::vector<std::span<std::byte>> pieces;

  struct Ending {
    std::string name;
    std::function<void()> end;
  };
  /// What windows can be bound to, if they can.
  ibv_mr* mr = nullptr;
  /// One of them is used at most.
  std::vector<Ending> endings;
  /// Ends all that is left of it. Keeps the objects that it is made of.
  std::function<void()> release;

  [[nodiscard]] uint64_t length() const;
};

/// Makes a region of its kind: `rights` are of enum ibv_access_flags.
using Make = Region (*)(End& owner, Arena& arena, int rights);

struct Kind {
  const char* name;
  Make make;
  bool peer_may_invalidate;
};

/// All kinds that have keys for peers.
std::span<const Kind> kinds();

/// What the owner's queue pair has to be able to do for them (ibv_qp_init_attr_ex).
uint64_t send_ops_flags();

}  // namespace uroce::keys
