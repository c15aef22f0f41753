#pragma once

#include <string>

#include "apps/stat/reading.h"

namespace uroce::statistics {

struct TableOptions {
  bool zeros = false;        // counters that are zero, too
  bool queue_pairs = false;  // a row for each
  bool regions = false;      // likewise
};

/// For people; each line ends with a line feed. With an earlier reading also what happened per second since.
std::string to_table(const Reading& reading, const Reading* earlier, TableOptions options);

/// A line for each queue pair.
std::string queue_pair_table(const Reading::Process& process);

/// All that is known of a queue pair.
std::string to_table(const host::QueuePairRow& row, const Reading::Process& process);

/// 1234567 as "1.2M", to powers of 1000.
std::string short_number(double value);

}  // namespace uroce::statistics
