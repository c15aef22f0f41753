#include "perf/end_to_end/traffic_options.h"

#include "perf/end_to_end/wire.h"

namespace uroce::perf {

TrafficOptions::TrafficOptions(CLI::App& app) {
  app.add_option("--op", operation_)->check(CLI::IsMember({"write", "read", "send"}));
  app.add_option("--size", traffic_.size)->transform(CLI::AsSizeValue(false));
  app.add_option("--mtu", traffic_.mtu);
  app.add_option("--region-mb", region_mb_);
  app.add_option("--queue-pairs", traffic_.queue_pairs)->check(CLI::PositiveNumber);
  app.add_flag("--all-addresses", traffic_.all_addresses, "of the ends, by queue pairs in turn");
  app.add_flag(
      "--crossed", traffic_.crossed,
      "of several pollers, queue pairs of the ends have different ones, so that packets come to wrong ones");
  app.add_flag("--random-order", traffic_.random_order, "of the queue pairs, after each has had its turn");
  app.add_option("--batch", traffic_.batch)->check(CLI::PositiveNumber);
  app.add_option("--outstanding", traffic_.outstanding)->check(CLI::PositiveNumber);
  app.add_flag("--no-queues", traffic_.no_queues, "queue pairs that nothing can be posted to");
  app.add_option("--depth", traffic_.depth, "of each send queue; not given: four times its share");
}

Traffic TrafficOptions::traffic() const {
  Traffic traffic = traffic_;
  traffic.operation = operation_of(operation_);
  traffic.region_bytes = region_mb_ << 20;
  return traffic;
}

}  // namespace uroce::perf
