#include "nvmf/subsystem/feature_values.h"

#include <cstddef>

#include "base/values/contract.h"

namespace uroce::nvmf {

void Features::reset() {
  for (size_t i = 0; i < values_.size(); ++i) values_[i] = kKeptFeatures[i].initial;
  temperature_thresholds = {kNoOverThreshold, kNoUnderThreshold};
}

const KeptFeature* Features::kept(Feature feature) {
  for (const KeptFeature& row : kKeptFeatures)
    if (row.feature == feature) return &row;
  return nullptr;
}

size_t Features::index(Feature feature) {
  const KeptFeature* const row = kept(feature);
  UROCE_ASSERT(row != nullptr);
  return static_cast<size_t>(row - kKeptFeatures.data());
}

}  // namespace uroce::nvmf
