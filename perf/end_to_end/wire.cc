#include "perf/end_to_end/wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "client/failure.h"
#include "client/pattern.h"

namespace uroce::perf {

Wire::Wire(const Traffic& traffic)
    : traffic_(traffic),
      read_(traffic.operation == Operation::kRead),
      near_(client::device_names().at(0), traffic, read_ ? Part::kTargets : Part::kSources),
      far_(client::device_names().at(1), traffic, read_ ? Part::kSources : Part::kTargets, traffic.crossed) {
  near_.connect(far_);
  far_.connect(near_);
  if (traffic.operation != Operation::kSend) return;
  // Twice as many as can be under way: the far end need not have polled what is acknowledged.
  for (uint32_t receives = 0; receives < 2 * traffic.outstanding; receives += traffic.batch)
    far_.post_receives();
}

void Wire::new_data() {
  for (uint64_t slot = 0; slot < traffic_.sources(); ++slot)
    client::fill_pattern((read_ ? far_ : near_).source(slot), ++seed_);
  fresh_ = posted_;
}

void Wire::verify() {
  RcEnd& to = read_ ? near_ : far_;
  RcEnd& from = read_ ? far_ : near_;
  const uint64_t first = posted_ - std::min(posted_ - fresh_, traffic_.targets());
  for (uint64_t message = first; message < posted_; ++message) {
    if (std::memcmp(to.target(message).data(), from.source(message).data(), traffic_.size) != 0)
      throw client::Failure(fmt::format("message {} is not what was sent", message));
  }
}

Operation operation_of(const std::string& name) {
  const auto operations = parse_operations(name);
  if (!operations) throw client::Failure(operations.error().message);
  return operations->front();
}

}  // namespace uroce::perf
