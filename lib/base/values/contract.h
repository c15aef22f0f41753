#pragma once

#include <cstdio>
#include <cstdlib>

/// UROCE_ASSERT(condition): what this stack promises itself, a precondition of a function or an invariant of
/// a class. Never what a peer sends or a program passes, for which there are counters, statuses and errno
/// (lib/README.md, Decisions), and never what another thread may change meanwhile. On with the meson option
/// `contracts`, by default in debug, sanitizer and fuzzing builds: a broken contract is printed and ends the
/// process. Off, the condition is compiled and not evaluated. At both ends of a queue: what one side asserts
/// of what it puts in, the other asserts of what it takes out.
#if UROCE_CONTRACTS
#define UROCE_ASSERT(...)                  \
  (static_cast<bool>(__VA_ARGS__) ? void() \
                                  : ::uroce::contract_broken(#__VA_ARGS__, __func__, __FILE__, __LINE__))
#else
#define UROCE_ASSERT(...) static_cast<void>(sizeof(static_cast<bool>(__VA_ARGS__)))
#endif

namespace uroce {

[[noreturn, gnu::cold, gnu::noinline]] inline void contract_broken(const char* condition,
                                                                   const char* function, const char* file,
                                                                   int line) {
  std::fprintf(stderr, "uroce: %s:%d: %s: broken contract: %s\n", file, line, function, condition);
  std::abort();
}

}  // namespace uroce
