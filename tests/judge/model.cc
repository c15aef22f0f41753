#include "tests/judge/model.h"

#include <cstring>

#include "client/pattern.h"

namespace uroce::judge {

Model::Model(uint64_t seed) : bytes_(kTargetBytes) { client::fill_pattern(bytes_, seed); }

uint64_t Model::word(uint32_t offset) const {
  uint64_t word = 0;
  std::memcpy(&word, bytes_.data() + offset, sizeof(word));
  return word;
}

uint64_t Model::perform(const Operation& operation) {
  if (is_write(operation.kind)) {
    client::fill_pattern({bytes_.data() + operation.target, operation.length}, operation.seed);
  }
  if (!is_atomic(operation.kind)) return 0;
  const uint64_t before = word(operation.target);
  uint64_t after = before + operation.operand;
  if (operation.kind == Kind::kCompareSwap) after = before == operation.compare ? operation.operand : before;
  std::memcpy(bytes_.data() + operation.target, &after, sizeof(after));
  return before;
}

std::optional<size_t> first_wrong(std::span<const std::byte> seen, uint32_t offset, const Model& model,
                                  std::span<const Operation> later) {
  if (seen.empty() || std::memcmp(seen.data(), model.bytes().data() + offset, seen.size()) == 0)
    return std::nullopt;
  std::vector<size_t> open;
  for (size_t i = 0; i < seen.size(); ++i) {
    if (seen[i] != model.bytes()[offset + i]) open.push_back(i);
  }
  Model ahead = model;
  for (const Operation& operation : later) {
    ahead.perform(operation);
    std::erase_if(open, [&](size_t i) { return seen[i] == ahead.bytes()[offset + i]; });
    if (open.empty()) return std::nullopt;
  }
  return open.front();
}

}  // namespace uroce::judge
