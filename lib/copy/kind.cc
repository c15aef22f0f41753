#include "copy/kind.h"

#include <vector>

#include "copy/kernels.h"

namespace uroce::copy {
namespace {

struct Streaming {
  Kind kind;
  std::string_view name;
  CopyFunction copy;
  bool exists;
};

std::vector<KindRow> rows_of_this_cpu() {
  __builtin_cpu_init();
  // Widest last.
  const Streaming streaming[] = {
      {Kind::kNonTemporal128, "non-temporal-128", copy_non_temporal_128, true},
      {Kind::kNonTemporal256, "non-temporal-256", copy_non_temporal_256, __builtin_cpu_supports("avx2") != 0},
      {Kind::kNonTemporal512, "non-temporal-512", copy_non_temporal_512,
       __builtin_cpu_supports("avx512f") != 0},
  };
  CopyFunction widest = nullptr;
  for (const Streaming& row : streaming) {
    if (row.exists) widest = row.copy;
  }
  std::vector<KindRow> rows = {
      {Kind::kAuto, "auto", copy_ordinary, widest, false, true},
      {Kind::kOrdinary, "ordinary", copy_ordinary, copy_ordinary, false, false},
      {Kind::kString, "string", copy_string, copy_string, false, false},
      {Kind::kNonTemporal, "non-temporal", widest, widest, true, true},
  };
  for (const Streaming& row : streaming) {
    if (row.exists) rows.push_back({row.kind, row.name, row.copy, row.copy, true, true});
  }
  return rows;
}

}  // namespace

std::span<const KindRow> kinds() {
  // Never destroyed: threads may still copy while the process ends.
  static const auto& rows = *new std::vector<KindRow>(rows_of_this_cpu());
  return rows;
}

const KindRow* find_kind(Kind kind) {
  for (const KindRow& row : kinds()) {
    if (row.kind == kind) return &row;
  }
  return nullptr;
}

const KindRow* find_kind(std::string_view name) {
  for (const KindRow& row : kinds()) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace uroce::copy
