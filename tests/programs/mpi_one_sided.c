// One-sided access of MPI to memory whose owner takes no part (passive target), checked, with an end right
// behind it:
//
//     mpirun -n RANKS mpi_one_sided
//
// All ranks compete for the locks of one rank after the other, put, get and accumulate, and count by
// MPI_Fetch_and_op. Then the job ends, while a rank may be the target of what another has not completed.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kRounds = 20, kWords = 100 };

static int rank, ranks;
static long wrong;

static void expect(int good) {
  if (!good) ++wrong;
}

/// Lock, put, unlock; lock, get, unlock: of a target that may be the rank itself.
static void contend(MPI_Win window, int target, int round) {
  long sent[kWords], received[kWords];
  const MPI_Aint own = 1 + (MPI_Aint)rank * kWords;
  for (int i = 0; i < kWords; ++i) {
    sent[i] = (long)rank * 1000003 + round * 1009 + i;
    received[i] = -1;
  }
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window);
  MPI_Put(sent, kWords, MPI_LONG, target, own, kWords, MPI_LONG, window);
  MPI_Win_unlock(target, window);
  MPI_Win_lock(round % 2 == 0 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, target, 0, window);
  MPI_Get(received, kWords, MPI_LONG, target, own, kWords, MPI_LONG, window);
  MPI_Win_unlock(target, window);
  for (int i = 0; i < kWords; ++i) expect(received[i] == sent[i]);
}

/// The counter of the target, the first word; it grows by one each time, whoever counts.
static long count(MPI_Win window, int target) {
  const long one = 1;
  long before = -1;
  MPI_Win_lock(MPI_LOCK_SHARED, target, 0, window);
  MPI_Fetch_and_op(&one, &before, MPI_LONG, target, 0, MPI_SUM, window);
  MPI_Win_unlock(target, window);
  return before;
}

int main(int argc, char** argv) {
  long* memory;
  MPI_Win window;
  long total = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const MPI_Aint bytes = (MPI_Aint)sizeof(long) * (1 + (MPI_Aint)ranks * kWords);
  MPI_Alloc_mem(bytes, MPI_INFO_NULL, &memory);
  for (int i = 0; i < 1 + ranks * kWords; ++i) memory[i] = 0;
  MPI_Win_create(memory, bytes, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  for (int round = 0; round < kRounds; ++round) {
    for (int target = 0; target < ranks; ++target) {
      long last = -1;
      contend(window, (target + rank) % ranks, round);
      for (int i = 0; i < 2; ++i) {
        const long before = count(window, target);
        expect(before > last && before < 2L * ranks * kRounds);
        last = before;
      }
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window);
  expect(memory[0] == 2L * ranks * kRounds);
  MPI_Win_unlock(rank, window);
  MPI_Win_free(&window);
  MPI_Reduce(&wrong, &total, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("%d ranks, %ld wrong\n", ranks, total);
    fflush(stdout);
  }
  MPI_Free_mem(memory);
  MPI_Finalize();
  return 0;
}
