// Memory regions of plain verbs: of whatever memory, changed while they live, and over a fork.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "ends.h"

namespace uroce::verbs_test {

namespace {

constexpr int kRemote = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
constexpr int kPlace = IBV_REREG_MR_CHANGE_TRANSLATION;
constexpr int kDomain = IBV_REREG_MR_CHANGE_PD;
constexpr int kAccess = IBV_REREG_MR_CHANGE_ACCESS;
constexpr size_t kBytes = 1 << 16;

/// `one` writes to and reads from what `other` registers.
class Registration : public Connected {
 protected:
  ibv_wc write(const void* at, uint32_t rkey, size_t bytes = kBytes) {
    ibv_sge segment = one.part(0, bytes);
    ibv_send_wr request = write_request(1, segment, other);
    request.wr.rdma.remote_addr = reinterpret_cast<uintptr_t>(at);
    request.wr.rdma.rkey = rkey;
    EXPECT_EQ(one.send(request), 0);
    return one.next();
  }
  bool arrived(const void* at, size_t bytes = kBytes) const {
    return std::equal(one.memory.begin(), one.memory.begin() + static_cast<ptrdiff_t>(bytes),
                      static_cast<const uint8_t*>(at));
  }
};

/// An empty buffer has keys as any other: for segments and WRITEs of no bytes, and for nothing else.
TEST_F(Registration, OfNoBytes) {
  char place = 0;
  for (void* const at : {static_cast<void*>(&place), static_cast<void*>(nullptr)}) {
    ibv_mr* const empty = ibv_reg_mr(other.pd, at, 0, kRemote);
    ASSERT_NE(empty, nullptr);
    EXPECT_EQ(empty->addr, at);
    EXPECT_EQ(empty->length, 0U);
    ibv_sge nothing{reinterpret_cast<uintptr_t>(at), 0, empty->lkey};
    ASSERT_EQ(other.receive(1, nothing), 0);
    ibv_sge segment = one.part(0, 0);
    ASSERT_EQ(one.send(send_request(2, segment)), 0);
    EXPECT_EQ(other.next().byte_len, 0U);
    EXPECT_EQ(one.next().status, IBV_WC_SUCCESS);
    EXPECT_EQ(write(at, empty->rkey, 0).status, IBV_WC_SUCCESS);
    if (at == nullptr) {
      EXPECT_EQ(write(&place, empty->rkey, 1).status, IBV_WC_REM_ACCESS_ERR);
    }
    EXPECT_EQ(ibv_dereg_mr(empty), 0);
  }
}

class Reregistration : public Registration {
 protected:
  int change(int flags, ibv_pd* pd, void* address, size_t length, int access) const {
    return ibv_rereg_mr(other.mr, flags, pd, address, length, access);
  }
};

TEST_F(Reregistration, ToAnotherPlaceThePeersKeyLeadsThere) {
  std::vector<uint8_t> place(2 * kBytes);
  const uint32_t rkey = other.mr->rkey;
  ASSERT_EQ(change(kPlace, nullptr, place.data(), place.size(), 0), 0);
  EXPECT_EQ(other.mr->addr, place.data());
  EXPECT_EQ(other.mr->length, place.size());
  EXPECT_EQ(other.mr->rkey, rkey);
  one.fill(5);
  EXPECT_EQ(write(place.data() + kBytes, rkey).status, IBV_WC_SUCCESS);
  EXPECT_TRUE(arrived(place.data() + kBytes));
  EXPECT_EQ(write(other.memory.data(), rkey).status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(std::count(other.memory.begin(), other.memory.end(), 0), ptrdiff_t{kBytes});
}

TEST_F(Reregistration, WithoutTheRightThePeerIsRefused) {
  ASSERT_EQ(change(kAccess, nullptr, nullptr, 0, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ), 0);
  EXPECT_EQ(write(other.memory.data(), other.mr->rkey).status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Reregistration, InAnotherDomainItsQueuePairsCannotUseIt) {
  ibv_pd* domain = ibv_alloc_pd(other.context);
  ASSERT_NE(domain, nullptr);
  ASSERT_EQ(change(kDomain, domain, nullptr, 0, 0), 0);
  EXPECT_EQ(other.mr->pd, domain);
  EXPECT_EQ(ibv_dealloc_pd(domain), EBUSY);
  EXPECT_EQ(write(other.memory.data(), other.mr->rkey).status, IBV_WC_REM_ACCESS_ERR);
  ASSERT_EQ(change(kDomain, other.pd, nullptr, 0, 0), 0);
  EXPECT_EQ(ibv_dealloc_pd(domain), 0);
}

TEST_F(Reregistration, EverythingAtOnce) {
  std::vector<uint8_t> place(kBytes);
  ibv_pd* domain = ibv_alloc_pd(other.context);
  ASSERT_EQ(change(kPlace | kDomain | kAccess, domain, place.data(), place.size(), 0), 0);
  ASSERT_EQ(change(kPlace | kDomain | kAccess, other.pd, place.data(), place.size(), kRemote), 0);
  EXPECT_EQ(ibv_dealloc_pd(domain), 0);
  EXPECT_EQ(write(place.data(), other.mr->rkey).status, IBV_WC_SUCCESS);
}

/// The region lives on as it was. The answer says whether libibverbs refuses it, or the kernel does on
/// hardware.
TEST_F(Reregistration, RefusalsLeaveItAsItWas) {
  void* const read_only = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(read_only, MAP_FAILED);
  std::vector<uint8_t> place(4096);
  struct Case {
    const char* what;
    int flags;
    ibv_pd* pd;
    void* address;
    size_t length;
    int access;
    int error;
    int code = IBV_REREG_MR_ERR_CMD;
  };
  constexpr int kInput = IBV_REREG_MR_ERR_INPUT;
  const std::vector<Case> cases = {
      {"nothing", 0, nullptr, nullptr, 0, 0, EINVAL},
      {"an unknown flag", 8, nullptr, nullptr, 0, 0, EINVAL, kInput},
      {"no address", kPlace, nullptr, nullptr, 4096, 0, EINVAL, kInput},
      {"no bytes", kPlace, nullptr, place.data(), 0, 0, EINVAL, kInput},
      {"no domain", kDomain, nullptr, nullptr, 0, 0, EINVAL, kInput},
      {"another device's domain", kDomain, one.pd, nullptr, 0, 0, EINVAL},
      {"rights without their flag", kPlace, nullptr, place.data(), 4096, kRemote, EINVAL, kInput},
      {"contradictory rights", kAccess, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_WRITE, EINVAL},
      {"on demand", kAccess, nullptr, nullptr, 0, IBV_ACCESS_ON_DEMAND, EOPNOTSUPP},
      {"a range that wraps", kPlace, nullptr, place.data(), SIZE_MAX, 0, EINVAL},
      {"read-only memory", kPlace, nullptr, read_only, 4096, 0, EFAULT},
  };
  for (const Case& refused : cases) {
    errno = 0;
    EXPECT_EQ(change(refused.flags, refused.pd, refused.address, refused.length, refused.access),
              refused.code)
        << refused.what;
    EXPECT_EQ(errno, refused.error) << refused.what;
  }
  EXPECT_EQ(other.mr->addr, other.memory.data());
  EXPECT_EQ(other.mr->pd, other.pd);
  EXPECT_EQ(write(other.memory.data(), other.mr->rkey).status, IBV_WC_SUCCESS);
  munmap(read_only, 4096);
}

/// The peer writes without a pause. What a re-registration has left when it returns is the owner's alone.
TEST_F(Reregistration, InTheMiddleOfTrafficNoByteComesLate) {
  std::vector<uint8_t> places[2] = {std::vector<uint8_t>(kBytes), std::vector<uint8_t>(kBytes)};
  ASSERT_EQ(change(kPlace | kAccess, nullptr, places[0].data(), kBytes, kRemote | IBV_ACCESS_ZERO_BASED), 0);
  std::atomic<bool> stop{false};
  std::atomic<int> writes{0};
  one.fill(77);
  std::thread peer([&] {
    while (!stop) {
      ASSERT_EQ(write(nullptr, other.mr->rkey).status, IBV_WC_SUCCESS);
      ++writes;
    }
  });
  for (size_t round = 0; round < 300 || writes < 100; ++round) {
    std::vector<uint8_t>& left = places[round % 2];
    ASSERT_EQ(change(kPlace, nullptr, places[(round + 1) % 2].data(), kBytes, 0), 0);
    const auto mark = static_cast<uint8_t>(round);
    std::fill(left.begin(), left.end(), mark);
    std::this_thread::yield();
    ASSERT_EQ(std::count(left.begin(), left.end(), mark), ptrdiff_t{kBytes});
  }
  stop = true;
  peer.join();
}

TEST_F(Registration, AdviceIsTakenAboutWhatIsRegistered) {
  ibv_sge all = other.all();
  for (const auto advice : {IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
                            IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT}) {
    EXPECT_EQ(ibv_advise_mr(other.pd, advice, 0, &all, 1), 0);
    EXPECT_EQ(ibv_advise_mr(other.pd, advice, IBV_ADVISE_MR_FLAG_FLUSH, &all, 1), 0);
  }
  const auto prefetch = IBV_ADVISE_MR_ADVICE_PREFETCH;
  EXPECT_EQ(ibv_advise_mr(other.pd, static_cast<ibv_advise_mr_advice>(3), 0, &all, 1), ENOTSUP);
  EXPECT_EQ(ibv_advise_mr(other.pd, prefetch, 2, &all, 1), EINVAL) << "an unknown flag";
  EXPECT_EQ(ibv_advise_mr(other.pd, prefetch, 0, &all, 0), EINVAL) << "nothing";
  ibv_pd* domain = ibv_alloc_pd(other.context);
  EXPECT_EQ(ibv_advise_mr(domain, prefetch, 0, &all, 1), EPERM);
  EXPECT_EQ(ibv_dealloc_pd(domain), 0);
  ibv_sge beyond = other.all();
  ++beyond.length;
  EXPECT_EQ(ibv_advise_mr(other.pd, prefetch, 0, &beyond, 1), EFAULT);
  all.lkey ^= 1;
  EXPECT_EQ(ibv_advise_mr(other.pd, prefetch, 0, &all, 1), ENOENT);
}

/// Memory of every origin, whole pages and parts of them.
TEST_F(Registration, OfAnyMemoryOfTheProcess) {
  const auto transfer = [&](const char* what, void* memory, size_t bytes) {
    SCOPED_TRACE(what);
    ibv_mr* mr = ibv_reg_mr(other.pd, memory, bytes, kRemote);
    ASSERT_NE(mr, nullptr);
    one.fill(static_cast<uint8_t>(what[0]));
    EXPECT_EQ(write(memory, mr->rkey, bytes).status, IBV_WC_SUCCESS);
    EXPECT_TRUE(arrived(memory, bytes));
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
  };
  const auto mapped = [&](const char* what, int flags, int file) {
    void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, flags, file, 0);
    ASSERT_NE(memory, MAP_FAILED) << what;
    transfer(what, memory, kBytes);
    munmap(memory, kBytes);
  };
  std::vector<uint8_t> heap(kBytes);
  transfer("heap", heap.data() + 3, kBytes - 3);
  std::array<uint8_t, 1000> stack{};
  transfer("stack", stack.data(), stack.size());
  static std::array<uint8_t, 1000> data;
  transfer("data", data.data(), data.size());
  mapped("private mapping", MAP_PRIVATE | MAP_ANONYMOUS, -1);
  mapped("shared mapping", MAP_SHARED | MAP_ANONYMOUS, -1);
  const int file = memfd_create("uroce-registration-test", MFD_CLOEXEC);
  ASSERT_GE(file, 0);
  ASSERT_EQ(ftruncate(file, kBytes), 0);
  mapped("file, shared", MAP_SHARED, file);
  mapped("file, private", MAP_PRIVATE, file);
  close(file);
}

/// What the peer writes is there for every mapping of the memory, as another process would have: at another
/// address.
TEST_F(Registration, OfSharedMemoryOfBothKinds) {
  const auto transfer = [&](const char* what, void* memory, const void* elsewhere) {
    SCOPED_TRACE(what);
    ASSERT_NE(memory, MAP_FAILED);  // which is what shmat returns, too
    ASSERT_NE(elsewhere, MAP_FAILED);
    ibv_mr* mr = ibv_reg_mr(other.pd, memory, kBytes, kRemote);
    ASSERT_NE(mr, nullptr);
    one.fill(static_cast<uint8_t>(what[0]));
    EXPECT_EQ(write(memory, mr->rkey).status, IBV_WC_SUCCESS);
    EXPECT_TRUE(arrived(elsewhere));
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
  };
  // Both are gone for others before they are used, so that nothing stays behind.
  const int segment = shmget(IPC_PRIVATE, kBytes, IPC_CREAT | 0600);
  ASSERT_GE(segment, 0);
  void* const attached = shmat(segment, nullptr, 0);
  void* const elsewhere = shmat(segment, nullptr, SHM_RDONLY);
  ASSERT_EQ(shmctl(segment, IPC_RMID, nullptr), 0);
  transfer("System V", attached, elsewhere);
  shmdt(attached);
  shmdt(elsewhere);

  const std::string name = "/uroce-registration-test-" + std::to_string(getpid());
  const int file = shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
  ASSERT_GE(file, 0);
  ASSERT_EQ(shm_unlink(name.c_str()), 0);
  ASSERT_EQ(ftruncate(file, kBytes), 0);
  void* const mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  void* const read_only = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  transfer("POSIX", mapped, read_only);
  // What may only be read is registered for nothing else.
  errno = 0;
  EXPECT_EQ(ibv_reg_mr(other.pd, read_only, kBytes, kRemote), nullptr);
  EXPECT_EQ(errno, EFAULT);
  ibv_mr* mr = ibv_reg_mr(other.pd, read_only, kBytes, int{IBV_ACCESS_REMOTE_READ});
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  munmap(mapped, kBytes);
  munmap(read_only, kBytes);
}

TEST_F(Registration, OfHugepages) {
  constexpr size_t kHuge = 2 << 20;
  void* memory =
      mmap(nullptr, kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "no free hugepages here";
  ibv_mr* mr = ibv_reg_mr(other.pd, memory, kHuge, kRemote);
  ASSERT_NE(mr, nullptr);
  one.fill(9);
  auto* last = static_cast<uint8_t*>(memory) + kHuge - kBytes;
  EXPECT_EQ(write(last, mr->rkey).status, IBV_WC_SUCCESS);
  EXPECT_TRUE(arrived(last));
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  munmap(memory, kHuge);
}

/// A page that is shared with a child is copied when it is written: by the device as by the program, for both
/// go through the same address.
TEST_F(Registration, AfterAForkProgramAndDeviceSeeTheSamePages) {
  std::array<int, 2> wake{};
  ASSERT_EQ(pipe(wake.data()), 0);
  other.fill(1);
  const std::vector<uint8_t> at_fork = other.memory;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    char byte = 0;
    close(wake[1]);
    if (read(wake[0], &byte, 1) != 1) _exit(1);
    _exit(other.memory == at_fork ? 0 : 2);
  }
  // The device writes to pages that both have; then the program does, and the device reads.
  one.fill(50);
  EXPECT_EQ(write(other.memory.data(), other.mr->rkey).status, IBV_WC_SUCCESS);
  EXPECT_EQ(one.memory, other.memory);
  other.fill(100);
  ibv_sge segment = one.all();
  ASSERT_EQ(one.send(read_request(2, segment, other)), 0);
  EXPECT_EQ(one.next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(one.memory, other.memory);

  ASSERT_EQ(::write(wake[1], "x", 1), 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "the child has what was there at the fork";
  close(wake[0]);
  close(wake[1]);
}

TEST_F(Registration, DmaBuffersAreRefused) {
  errno = 0;
  EXPECT_EQ(ibv_reg_dmabuf_mr(other.pd, 0, 4096, 0, 0, kRemote), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

}  // namespace

}  // namespace uroce::verbs_test
