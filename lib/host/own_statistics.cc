#include "host/own_statistics.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <new>

#include "base/counter_texts.h"
#include "host/control.h"
#include "host/process_start.h"

namespace uroce::host {
namespace {

/// The device and number of the file behind a descriptor; nothing when there is none.
OwnStatistics::Inode inode_of(int descriptor) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0) return std::nullopt;
  return std::pair<uint64_t, uint64_t>(status.st_dev, status.st_ino);
}

Error failed(int code) { return {code, std::string("memory for statistics: ") + std::strerror(code)}; }

}  // namespace

Result<OwnStatistics> OwnStatistics::make(uint32_t devices, uint32_t pollers) {
  if (devices > kShownDevicesMax || pollers > kShownPollersMax) return failed(E2BIG);
  const StatisticsLayout layout(devices, pollers);
  Descriptor descriptor(memfd_create(kStatisticsName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor.ok()) return failed(errno);
  if (ftruncate(descriptor.get(), static_cast<off_t>(layout.bytes())) != 0) return failed(errno);
  void* const data = mmap(nullptr, layout.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
  if (data == MAP_FAILED) return failed(errno);
  Mapping memory(static_cast<std::byte*>(data), layout.bytes());
  // No access to it faults, whatever a reader does.
  if (fcntl(descriptor.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return failed(errno == EINVAL ? ENOSYS : errno);
  // Latencies are zeros already, and have pages only when something is measured.
  for (uint32_t i = 0; i < devices * pollers; ++i) new (layout.counters(memory.data(), 0, i)) Counters;
  auto* const header = new (data) StatisticsHeader{};
  header->version = kStatisticsVersion;
  header->counters = kCounterCount;
  header->counter_table = counter_table_hash();
  header->bytes = layout.bytes();
  header->devices = devices;
  header->pollers = pollers;
  header->pid = getpid();
  header->started_ticks = start_of_process(getpid()).value_or(0);
  set_text(header->program, program_invocation_short_name);
  header->magic = kStatisticsMagic;
  const Inode inode = inode_of(descriptor.get());
  return OwnStatistics(std::move(descriptor), std::move(memory), layout, inode);
}

OwnStatistics::~OwnStatistics() {
  // Release: a reader that sees it closed reads nothing more.
  if (memory_.data() != nullptr) header().open.store(0, std::memory_order_release);
  // The program may have closed what it does not know, and a file of its own may have got the number.
  if (descriptor_.ok() && inode_of(descriptor_.get()) != inode_) (void)descriptor_.release();
}

}  // namespace uroce::host
