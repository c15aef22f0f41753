#pragma once

#include <span>
#include <string>

#include "engine/configuration/key.h"

// [congestion]: keys of the network, and those that follow from the table of algorithms
// (qp/congestion/algorithms.h).
namespace uroce::engine {

std::span<const Key> congestion_keys();

/// The whole table as TOML.
std::string to_toml(const qp::CongestionOptions& congestion);

}  // namespace uroce::engine
