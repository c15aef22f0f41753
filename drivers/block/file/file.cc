#include "drivers/block/file/file.h"

#include <cerrno>
#include <string>
#include <utility>

#include "drivers/block/file/backing.h"
#include "drivers/block/file/queue.h"
#include "drivers/block/file/ring.h"

namespace uroce::drivers {
namespace {

class FileDevice final : public block::Device {
 public:
  FileDevice(Backing backing, block::Properties properties)
      : backing_(std::move(backing)), properties_(std::move(properties)) {}

  [[nodiscard]] const block::Properties& properties() const override { return properties_; }

  Result<std::unique_ptr<block::Queue>> open_queue(uint32_t depth,
                                                   std::span<const std::span<std::byte>> buffers) override {
    return FileQueue::open(backing_, properties_.block_bytes, depth, buffers);
  }

 private:
  Backing backing_;
  block::Properties properties_;
};

/// What is asked for, or the smaller one that the file can be accessed in.
Result<uint32_t> block_bytes_of(const Backing& backing, std::optional<uint32_t> asked) {
  const uint32_t least = backing.offset_alignment();
  const uint32_t block_bytes = asked.value_or(least <= 512 ? 512 : 4096);
  if (block_bytes % least == 0) return block_bytes;
  return Error{EINVAL, "file " + backing.path() + ": block size " + std::to_string(block_bytes) +
                           ", but it is accessed in " + std::to_string(least) + " bytes"};
}

Result<uint64_t> size_of(const Backing& backing, std::optional<uint64_t> asked, uint32_t block_bytes) {
  const std::string name = "file " + backing.path() + ": ";
  if (backing.bytes() == 0) return Error{EINVAL, name + "it is empty"};
  const uint64_t size = asked.value_or(backing.bytes());
  if (size > backing.bytes())
    return Error{EINVAL,
                 name + "size " + std::to_string(size) + ", but it has " + std::to_string(backing.bytes())};
  if (size % block_bytes != 0)
    return Error{EINVAL, name + "its size " + std::to_string(size) + " is not a multiple of the block size " +
                             std::to_string(block_bytes)};
  return size;
}

std::string description_of(const Backing& backing, uint64_t size) {
  return (backing.is_block_device() ? "block device " : "file ") + backing.path() + ", " +
         std::to_string(size) + " bytes, " +
         (backing.is_direct() ? "direct" : "through the page cache: its file system has no O_DIRECT");
}

}  // namespace

Result<std::unique_ptr<block::Device>> open_file(const BlockSpecification& specification) {
  Result<Backing> backing = Backing::open(specification.path, specification.read_only);
  if (!backing) return backing.error();
  if (Status status = probe_ring(); !status)
    return Error{status.error().code, "file " + specification.path + ": " + status.error().message};
  const Result<uint32_t> block_bytes = block_bytes_of(*backing, specification.block_bytes);
  if (!block_bytes) return block_bytes.error();
  const Result<uint64_t> size = size_of(*backing, specification.size_bytes, *block_bytes);
  if (!size) return size.error();
  block::Properties properties = {.description = description_of(*backing, *size),
                                  .block_bytes = *block_bytes,
                                  .blocks = *size / *block_bytes,
                                  .volatile_cache = true,
                                  .read_only = specification.read_only,
                                  .memory_alignment = backing->memory_alignment()};
  return std::unique_ptr<block::Device>(
      std::make_unique<FileDevice>(std::move(*backing), std::move(properties)));
}

}  // namespace uroce::drivers
