#include "host/tool_memory.h"

#include <errno.h>
#include <unistd.h>

#include "host/control.h"
#include "host/process_start.h"

namespace uroce::host {

ToolMemory tool_memory(uint64_t magic, uint32_t version, uint64_t bytes) {
  ToolMemory memory{.magic = magic,
                    .version = version,
                    .unused = 0,
                    .bytes = bytes,
                    .started_ticks = start_of_process(getpid()).value_or(0),
                    .program = {}};
  set_text(memory.program, program_invocation_short_name);
  return memory;
}

bool belongs_to(const ToolMemory& memory, int pid) { return start_of_process(pid) == memory.started_ticks; }

}  // namespace uroce::host
