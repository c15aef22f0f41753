#pragma once

#include <cstdint>
#include <memory>

#include "tests/sim/endpoint.h"

namespace uroce::sim {

/// WRITEs, or READs, of one length over a connection, as many of them under way as there may be.
class WriteStream {
 public:
  struct Options {
    uint32_t bytes = 65536;
    uint32_t outstanding = 4;
    uint8_t timeout = 14;  // of an ACK, as a code
    queue::SendOperation operation = queue::SendOperation::kWrite;
    uint64_t arena_bytes = Arena::kBytes;  // of each end
  };
  WriteStream(Host& from, Host& to, const Options& options, Random& random);

  /// Posts what may be.
  void post();
  /// Throws when one has failed.
  void poll();

  /// Completed ones, since the beginning or forget().
  [[nodiscard]] uint64_t done() const { return done_; }
  void forget() { done_ = 0; }
  /// The queue pair that the requests go to.
  [[nodiscard]] QpNumber target() const { return to_->number(); }

 private:
  Options options_;
  std::unique_ptr<Endpoint> from_;
  std::unique_ptr<Endpoint> to_;
  Arena::Slot source_ = {};
  Arena::Slot target_ = {};
  uint32_t under_way_ = 0;
  uint64_t done_ = 0;
};

}  // namespace uroce::sim
