#pragma once

#include <nlohmann/json.hpp>

#include "apps/perf/ends/endpoint.h"
#include "apps/perf/ends/round.h"
#include "apps/perf/plan/plan.h"
#include "client/failure.h"

/// What client and server tell each other, as JSON. Reading throws Failure when a field is missing, of the
/// wrong type, or out of range: the other end may be any program.
namespace uroce::perf {

/// Both ends must be of the same version of this dialogue.
constexpr uint32_t kDialogueVersion = 6;

nlohmann::json to_json(const Plan& plan);
Plan plan_from(const nlohmann::json& json);

nlohmann::json to_json(const Address& address);
Address address_from(const nlohmann::json& json);

nlohmann::json to_json(const Round& round);
Round round_from(const nlohmann::json& json);

nlohmann::json to_json(const Phase& phase);
Phase phase_from(const nlohmann::json& json);

/// What is thrown for the field called `key`.
client::Failure wrong_field(const char* key);

/// The unsigned number called `key`, at most `max`.
uint64_t number_from(const nlohmann::json& json, const char* key, uint64_t max = UINT64_MAX);
/// The number called `key`, from 0 to `max`.
double real_from(const nlohmann::json& json, const char* key, double max);

}  // namespace uroce::perf
