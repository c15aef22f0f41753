#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/values/result.h"

namespace uroce::perf {

enum class Operation : uint8_t { kWrite, kRead, kSend, kFetchAdd, kCompareSwap };

/// The operation is on 8 bytes, whatever the sizes of the plan.
constexpr bool is_atomic(Operation operation) {
  return operation == Operation::kFetchAdd || operation == Operation::kCompareSwap;
}

/// What a queue pair promises: RC everything, UC order, UD nothing.
enum class Service : uint8_t { kRc, kUc, kUd };

constexpr bool is_reliable(Service service) { return service == Service::kRc; }

constexpr bool has_operation(Service service, Operation operation) {
  return service == Service::kRc || operation == Operation::kSend ||
         (service == Service::kUc && operation == Operation::kWrite);
}

/// What one round measures.
enum class Measure : uint8_t { kBandwidth, kLatency };

std::string_view name_of(Operation operation);
std::string_view name_of(Measure measure);
std::string_view name_of(Service service);  // "RC"

/// What both ends must agree on before the first round; the client's holds.
struct Plan {
  Service service = Service::kRc;
  std::vector<Operation> operations;
  std::vector<uint64_t> sizes;
  std::vector<Measure> measures;
  uint32_t depth = 128;                // messages outstanding
  uint32_t slots = 0;                  // places in memory that these take in turn; 0: one each
  uint32_t receive_list = 0;           // receives posted by one call; 0: as many as a poll found
  std::optional<uint64_t> iterations;  // messages per measurement; without it `duration_s` decides
  double duration_s = 0.5;             // of one measurement
  std::optional<uint32_t> path_mtu;    // bytes; default: the largest that both ports carry
  uint32_t ack_timeout = 14;           // of the queue pairs, as a code: 4.096 us * 2^code, 0 for never
};

/// "write,read": each at most once, in the order given.
Result<std::vector<Operation>> parse_operations(std::string_view text);

/// "rc", "uc" or "ud".
Result<Service> parse_service(std::string_view text);

/// EINVAL when the service lacks one of the operations.
Status check_operations(Service service, const std::vector<Operation>& operations);

/// "bandwidth,latency".
Result<std::vector<Measure>> parse_measures(std::string_view text);

/// "64,4K,1M", or "all": the powers of two from 1 to 8 MiB. 1 to 8 MiB each.
Result<std::vector<uint64_t>> parse_sizes(std::string_view text);

/// "64", "4K": one of them.
Result<uint64_t> parse_size(std::string_view text);

/// "250000", "250k", "1.5M": a number of messages a second.
Result<double> parse_rate(std::string_view text);

/// "64 B", "4 KiB", "8 MiB": exact.
std::string size_text(uint64_t bytes);

constexpr uint64_t kSizeMax = 8u << 20;
constexpr uint64_t kDatagramMax = 4096;  // the largest path MTU

}  // namespace uroce::perf
