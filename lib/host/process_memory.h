#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/descriptor.h"
#include "base/result.h"

namespace uroce::host {

/// Calls `use` with each entry of the folder whose name is a number, as below /proc. None of what may not be
/// read.
void for_each_number(const std::string& folder, const std::function<void(int)>& use);

/// Calls `use` with the name and the descriptor of each memfd that a process has open, as far as this one may
/// see it.
void for_each_memory(int pid, const std::function<void(std::string_view name, int descriptor)>& use);

/// What is behind a descriptor of a process, as a path. To be opened by open_memory() alone.
std::string path_of_descriptor(int pid, int descriptor);

/// Opens it (`access`: O_RDONLY or O_RDWR) if it is a memfd of ordinary pages. ENOENT: it is something else,
/// or is so by now: a process may change what has a number after its name was read. Never waits: what it is
/// is known before it is opened.
Result<Descriptor> open_memory(int pid, int descriptor, int access);

}  // namespace uroce::host
