#include "tests/sim/write_guard.h"

#include <signal.h>
#include <sys/mman.h>

#include <stdexcept>
#include <utility>

namespace uroce::sim {

namespace {

// What the signal handler needs; there is one guard at a time and one thread.
std::vector<std::span<std::byte>> guarded;
volatile sig_atomic_t stores = 0;
struct sigaction previous;

void protect(int protection) {
  for (const std::span<std::byte>& range : guarded) {
    if (mprotect(range.data(), range.size(), protection) != 0) throw std::runtime_error("mprotect");
  }
}

void on_fault(int, siginfo_t* info, void*) {
  const std::byte* const address = static_cast<std::byte*>(info->si_addr);
  for (const std::span<std::byte>& range : guarded) {
    if (address < range.data() || address >= range.data() + range.size()) continue;
    stores = 1;
    mprotect(range.data(), range.size(), PROT_READ | PROT_WRITE);
    return;
  }
  // Not a fault of ours: let it happen again without us.
  sigaction(SIGSEGV, &previous, nullptr);
}

}  // namespace

WriteGuard::WriteGuard(std::vector<std::span<std::byte>> memory) {
  guarded = std::move(memory);
  stores = 0;
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, &previous);
  protect(PROT_READ);
}

WriteGuard::~WriteGuard() {
  protect(PROT_READ | PROT_WRITE);
  sigaction(SIGSEGV, &previous, nullptr);
}

bool WriteGuard::written() const { return stores != 0; }

}  // namespace uroce::sim
