#include "tests/sim/write_stream.h"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace uroce::sim {

WriteStream::WriteStream(Host& from, Host& to, const Options& options, Random& random)
    : options_(options),
      from_(std::make_unique<Endpoint>(
          from, Endpoint::Options{.signal_all = true, .arena_bytes = options.arena_bytes}, random)),
      to_(std::make_unique<Endpoint>(
          to, Endpoint::Options{.signal_all = true, .arena_bytes = options.arena_bytes}, random)) {
  connect(*from_, *to_, {.path_mtu = PathMtu::k4096, .reads = 16, .timeout = options.timeout});
  source_ = from_->arena.lend(options.bytes, random).value();
  target_ = to_->arena.lend(options.bytes, random).value();
}

void WriteStream::post() {
  if (under_way_ == options_.outstanding) return;
  queue::SendQueue& queue = from_->sends();
  for (; under_way_ < options_.outstanding; ++under_way_) {
    queue::SendRequest& request = *queue.reserve();
    request.operation = options_.operation;
    request.remote_address = to_->arena.iova(target_);
    request.rkey = to_->arena.keys().rkey;
    request.length = options_.bytes;
    request.segments = 1;
    queue.segments(request)[0] = from_->arena.segment(source_);
    queue.publish();
  }
  from_->publish_sends();
}

void WriteStream::poll() {
  std::array<queue::Completion, 8> found;
  const size_t count = from_->poll_sends(found);
  for (size_t i = 0; i < count; ++i)
    if (found[i].status != queue::CompletionStatus::kSuccess)
      throw std::runtime_error("a connection has broken");
  under_way_ -= static_cast<uint32_t>(count);
  done_ += count;
}

}  // namespace uroce::sim
