#pragma once

#include <liburing.h>

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

namespace uroce::testing {

/// Stands between the file driver and liburing (the program is linked with --wrap): sees what the kernel is
/// handed, and may change it or what comes back. One at a time, and one ring.
class RingWatch {
 public:
  RingWatch();
  ~RingWatch();
  RingWatch(const RingWatch&) = delete;
  RingWatch& operator=(const RingWatch&) = delete;

  std::vector<io_uring_sqe> seen;
  size_t submits = 0;                                                   // calls
  std::function<void(io_uring_sqe&)> change;                            // before the kernel sees it
  std::function<int32_t(const io_uring_sqe&, int32_t result)> results;  // what the driver shall see

  void submitting(io_uring* ring);
  void completed(io_uring_cqe& completion) const;

 private:
  std::map<uint64_t, io_uring_sqe> last_;  // by user_data
};

}  // namespace uroce::testing
