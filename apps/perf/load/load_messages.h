#pragma once

#include <nlohmann/json.hpp>
#include <span>

#include "apps/perf/load/load_end.h"
#include "client/channel.h"

/// What client and server tell each other of a load, as JSON (messages.h).
namespace uroce::perf {

/// Queue pairs in one message.
constexpr uint32_t kAddressesMax = 64;

nlohmann::json to_json(const Load& load);
Load load_from(const nlohmann::json& json);

/// Without its start: that is when it is told.
nlohmann::json to_json(const LoadRun& run);
LoadRun run_from(const nlohmann::json& json);

nlohmann::json to_json(const LoadClaims& claims);
LoadClaims claims_from(const nlohmann::json& json);

nlohmann::json to_json(std::span<const Address> addresses);
std::vector<Address> addresses_from(const nlohmann::json& json);

/// In several messages: histograms are long. Those of the parts and slices only if there is anything in them.
void tell(client::Channel& channel, const LoadCounts& counts);
LoadCounts hear_counts(client::Channel& channel);

}  // namespace uroce::perf
