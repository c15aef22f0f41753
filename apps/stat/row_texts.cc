#include "apps/stat/row_texts.h"

#include "base/values/identifiers.h"
#include "mem/rights/access.h"
#include "qp/attributes/state_name.h"
#include "qp/congestion/algorithms.h"
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

std::string_view state_of(const host::QueuePairRow& row) { return qp::state_name(row.state); }

std::string_view control_of(const host::QueuePairRow& row) {
  const size_t control = row.congestion_control;
  return control < qp::kCongestionNames.size() ? qp::kCongestionNames[control] : "unknown";
}

std::string_view region_kind(size_t kind) {
  static constexpr std::array<std::string_view, host::kRegionKinds> kKinds{
      "none", "user",    "dma",      "reserved_lkey", "physical", "fast",
      "fmr",  "window1", "window2a", "window2b",      "null"};
  return kind < kKinds.size() ? kKinds[kind] : "unknown";
}

std::string_view kind_of(const host::RegionRow& row) { return region_kind(row.kind); }

std::vector<std::string_view> rights_of(const host::RegionRow& row) {
  struct Right {
    mem::Access access;
    std::string_view name;
  };
  static constexpr std::array kRights{
      Right{mem::kLocalWrite, "local_write"},   Right{mem::kRemoteWrite, "remote_write"},
      Right{mem::kRemoteRead, "remote_read"},   Right{mem::kRemoteAtomic, "remote_atomic"},
      Right{mem::kWindowBind, "mw_bind"},       Right{mem::kZeroBased, "zero_based"},
      Right{mem::kFlushGlobal, "flush_global"}, Right{mem::kFlushPersistent, "flush_persistent"},
  };
  std::vector<std::string_view> rights;
  for (const Right& right : kRights)
    if (mem::Access(row.access).any(right.access)) rights.push_back(right.name);
  return rights;
}

std::string peer_of(const host::QueuePairRow& row) {
  const Gid gid{row.peer};
  return gid == Gid{} ? std::string() : wire::to_text(gid);
}

}  // namespace uroce::statistics
