#pragma once

#include <string>
#include <vector>

#include "staged_capture.h"

namespace uroce::decode {

/// A capture in which one thing is wrong.
struct PlantedFault {
  std::string what;
  Rule rule;
  std::vector<captures::Record> records;
  uint64_t frame = 0;  // which is wrong, from 1
};

std::vector<PlantedFault> planted_faults();

}  // namespace uroce::decode
