#pragma once

#include <sys/sdt.h>

// Probes for tracing programs while they run (USDT; bpftrace, perf, SystemTap). Each is a nop, and a note in
// the library that says where it is and where its arguments are. apps/uroce.1 lists them, and a test compares
// that list with the library.

/// A probe of provider "uroce" with integers as arguments. Only where something unusual happens: the
/// arguments are made ready whether or not anything traces.
#define UROCE_PROBE2(name, first, second) DTRACE_PROBE2(uroce, name, first, second)
#define UROCE_PROBE3(name, first, second, third) DTRACE_PROBE3(uroce, name, first, second, third)
