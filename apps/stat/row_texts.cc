#include "apps/stat/row_texts.h"

#include "base/identifiers.h"
#include "wire/address_text.h"

namespace uroce::statistics {

std::string_view type_of(const host::QueuePairRow& row) {
  switch (row.type) {
    case 2:
      return "RC";
    case 3:
      return "UC";
    case 4:
      return "UD";
    case 9:
      return "XRC send";
    case 10:
      return "XRC receive";
    default:
      return "unknown";
  }
}

std::string_view state_of(const host::QueuePairRow& row) {
  static constexpr std::array<std::string_view, 7> kStates{"RESET", "INIT", "RTR", "RTS",
                                                           "SQD",   "SQE",  "ERR"};
  return row.state < kStates.size() ? kStates[row.state] : "unknown";
}

std::string_view control_of(const host::QueuePairRow& row) {
  static constexpr std::array<std::string_view, 3> kControls{"none", "dcqcn", "swift"};
  return row.congestion_control < kControls.size() ? kControls[row.congestion_control] : "unknown";
}

std::string peer_of(const host::QueuePairRow& row) {
  const Gid gid{row.peer};
  return gid == Gid{} ? std::string() : wire::to_text(gid);
}

}  // namespace uroce::statistics
