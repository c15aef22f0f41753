#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "tests/support/soon.h"
#include "tests/unit/service/running_service.h"

namespace uroce::testing {
namespace {

using host::Message;
using host::MessageType;

constexpr size_t kBytes = host::MemoryLayout(host::kProgramMemory).bytes();
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;

/// A memfd of that size, in which the format stands or not.
Descriptor memory(size_t bytes, int seals, bool format, unsigned flags = MFD_ALLOW_SEALING) {
  Descriptor descriptor(memfd_create("test", flags));
  EXPECT_EQ(ftruncate(descriptor.get(), static_cast<off_t>(bytes)), 0);
  if (format) {
    ProgramMemory right;
    EXPECT_EQ(pwrite(descriptor.get(), right.bytes().data(), sizeof(host::Preamble), 0),
              static_cast<ssize_t>(sizeof(host::Preamble)));
  }
  if (seals != 0) {
    EXPECT_EQ(fcntl(descriptor.get(), F_ADD_SEALS, seals), 0);
  }
  return descriptor;
}

TEST(Descriptors, OnlySealedMemoryOfTheRightSizeAndFormatIsMapped) {
  const auto refused = [](const Descriptor& descriptor) {
    const auto mapped = host::map_sealed_memory(descriptor.get(), host::kProgramMemory);
    return mapped ? std::string() : mapped.error().message;
  };
  EXPECT_EQ(refused(memory(kBytes, kSeals, true)), "");
  EXPECT_EQ(refused(memory(kBytes, kSeals | F_SEAL_SEAL, true)), "");
  EXPECT_EQ(refused(memory(kBytes, kSeals, false)), "shared memory has another format");
  EXPECT_EQ(refused(memory(kBytes + 4096, kSeals, true)), "shared memory has another size");
  EXPECT_EQ(refused(memory(kBytes - 4096, kSeals, true)), "shared memory has another size");
  for (const int missing : {F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_FUTURE_WRITE})
    EXPECT_NE(refused(memory(kBytes, kSeals & ~missing, true)).find("is not sealed"), std::string::npos);
  EXPECT_NE(refused(memory(kBytes, 0, true)).find("is not sealed"), std::string::npos);
  EXPECT_NE(refused(memory(kBytes, 0, true, 0)).find("is not sealed"), std::string::npos);
  if (const Descriptor huge(memfd_create("test", MFD_HUGETLB | MFD_ALLOW_SEALING)); huge.ok()) {
    EXPECT_EQ(refused(huge), "shared memory is no memfd of ordinary pages");
  }
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  EXPECT_NE(refused(Descriptor(ends[0])), "");
  EXPECT_NE(refused(Descriptor(ends[1])), "");
  EXPECT_NE(refused(Descriptor(open("/dev/zero", O_RDWR))), "");
  EXPECT_NE(refused(Descriptor(open("/proc/self/exe", O_RDONLY))), "");
  EXPECT_NE(refused(Descriptor(open("/dev/shm", O_RDONLY | O_DIRECTORY))), "");
}

TEST(Descriptors, TheServicesMemoryCannotBeWritten) {
  RunningService service;
  FakeProgram program(service.path());
  ASSERT_TRUE(program.send(hello(MessageType::kAttach), {program.memory().descriptor()}));
  const auto attached = program.receive();
  ASSERT_TRUE(attached);
  ASSERT_EQ(attached->descriptors.size(), 2u);
  for (const Descriptor& descriptor : attached->descriptors) {
    EXPECT_NE(ftruncate(descriptor.get(), 0), 0);
    EXPECT_LT(pwrite(descriptor.get(), "x", 1, 0), 0);
    EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0), MAP_FAILED);
    void* const mapped = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, descriptor.get(), 0);
    ASSERT_NE(mapped, MAP_FAILED);
    EXPECT_NE(mprotect(mapped, 4096, PROT_READ | PROT_WRITE), 0);
    munmap(mapped, 4096);
  }
}

TEST(Descriptors, AWrongOneIsRefusedAndTheRightOneTaken) {
  RunningService service;
  FakeProgram program(service.path());
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const Descriptor reading(ends[0]);
  const Descriptor writing(ends[1]);
  EXPECT_EQ(program.ask(hello(MessageType::kAttach), {reading.get()}).error, EPERM);
  const Descriptor unsealed = memory(kBytes, 0, true);
  EXPECT_EQ(program.ask(hello(MessageType::kAttach), {unsealed.get()}).error, EPERM);
  EXPECT_EQ(program.attach().type, MessageType::kAttached);
}

size_t open_descriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

TEST(Descriptors, ThoseThatNothingAsksForEndTheProgram) {
  RunningService service;
  {
    FakeProgram first(service.path());
    first.attach();
  }
  const size_t before = open_descriptors();
  for (const size_t count : {0u, 2u, 3u, 30u}) {
    FakeProgram program(service.path());
    const std::vector<int> several(count, program.memory().descriptor());
    EXPECT_EQ(program.ask(hello(MessageType::kAttach), several).error, EPROTO);
    EXPECT_TRUE(program.closed());
  }
  {
    FakeProgram program(service.path());
    program.attach();
    ASSERT_TRUE(program.send({.type = MessageType::kJoin}, {program.memory().descriptor()}));
    EXPECT_TRUE(program.closed());
  }
  EXPECT_TRUE(soon([&] { return open_descriptors() <= before; }));
}

}  // namespace
}  // namespace uroce::testing
