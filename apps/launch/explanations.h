#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace uroce::launch {

/// What a number that programs print when verbs fail means.
struct Explanation {
  enum class Kind : uint8_t { kCompletionStatus, kErrno };
  Kind kind;
  int number;
  std::string_view name;     // "IBV_WC_RETRY_EXC_ERR", "ENOMEM"
  std::string_view meaning;  // here, in one sentence or two
  std::string_view look_at;  // where the cause is to be found; may be empty
};

/// Every completion status, by number, then the errnos that verbs and rdma_cm fail with.
std::span<const Explanation> explanations();

/// All that `word` may stand for, in any case: a name, with or without "IBV_WC_" and "_ERR", a number, or the
/// text that programs print for it ("transport retry counter exceeded").
std::vector<Explanation> find_explanations(std::string_view word);

/// `uroce explain WORD...`: prints them, or without a word the names of all. The exit status: 1 after one
/// line on standard error for each word that means nothing.
int explain(const std::vector<std::string>& words);

}  // namespace uroce::launch
