#include "tests/unit/block/ring_watch.h"

#include <span>

namespace uroce::testing {
namespace {

RingWatch* watching = nullptr;

}  // namespace

RingWatch::RingWatch() { watching = this; }
RingWatch::~RingWatch() { watching = nullptr; }

void RingWatch::submitting(io_uring* ring) {
  ++submits;
  for (unsigned at = ring->sq.sqe_head; at != ring->sq.sqe_tail; ++at) {
    io_uring_sqe& submission = ring->sq.sqes[at & ring->sq.ring_mask];
    if (change) change(submission);
    seen.push_back(submission);
    last_[submission.user_data] = submission;
  }
}

void RingWatch::completed(io_uring_cqe& completion) const {
  if (results) completion.res = results(last_.at(completion.user_data), completion.res);
}

}  // namespace uroce::testing

extern "C" {

int __real_io_uring_submit(io_uring* ring);
unsigned __real_io_uring_peek_batch_cqe(io_uring* ring, io_uring_cqe** completions, unsigned count);

int __wrap_io_uring_submit(io_uring* ring) {
  if (uroce::testing::watching != nullptr) uroce::testing::watching->submitting(ring);
  return __real_io_uring_submit(ring);
}

unsigned __wrap_io_uring_peek_batch_cqe(io_uring* ring, io_uring_cqe** completions, unsigned count) {
  const unsigned peeked = __real_io_uring_peek_batch_cqe(ring, completions, count);
  if (uroce::testing::watching == nullptr) return peeked;
  for (io_uring_cqe* completion : std::span(completions, peeked))
    uroce::testing::watching->completed(*completion);
  return peeked;
}
}
