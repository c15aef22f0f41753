#pragma once

/// Marks what the stack exports to its thin faces; lib/verbs/faces/symbols.txt lists it.
#define UROCE_EXPORT __attribute__((visibility("default")))
