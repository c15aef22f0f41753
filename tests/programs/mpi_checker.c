// Sends messages of many sizes between all ranks of an MPI job, checks every byte, and says what it has done:
//
//     mpirun -n RANKS mpi_checker
//
// Messages that wait for their receive and such that are awaited, all pairs at once, a reduction, and
// one-sided access.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kSizes = 7, kRounds = 3, kWords = 4096 };
static const int sizes[kSizes] = {1, 64, 1000, 8192, 65536, 1 << 20, (4 << 20) + 3};

static int rank, ranks;
static long wrong;

static unsigned char byte_of(int from, int to, int round, int at) {
  return (unsigned char)(((unsigned)at * 2654435761u >> 13) + (unsigned)(from * 31 + to * 7 + round * 3));
}

static void expect(int good) {
  if (!good) ++wrong;
}

static void exchange(int size, int round) {
  MPI_Request* const requests = calloc(2 * (size_t)ranks, sizeof(*requests));
  unsigned char* const sent = malloc((size_t)ranks * (size_t)size);
  unsigned char* const received = calloc((size_t)ranks, (size_t)size);
  for (int other = 0; other < ranks; ++other) {
    unsigned char* const message = sent + (size_t)other * (size_t)size;
    for (int i = 0; i < size; ++i) message[i] = byte_of(rank, other, round, i);
  }
  // In every other round the messages come before their receives.
  for (int other = 0; other < ranks && round % 2 == 0; ++other)
    MPI_Irecv(received + (size_t)other * (size_t)size, size, MPI_BYTE, other, round, MPI_COMM_WORLD,
              &requests[other]);
  for (int other = 0; other < ranks; ++other)
    MPI_Isend(sent + (size_t)other * (size_t)size, size, MPI_BYTE, other, round, MPI_COMM_WORLD,
              &requests[ranks + other]);
  for (int other = 0; other < ranks && round % 2 == 1; ++other)
    MPI_Irecv(received + (size_t)other * (size_t)size, size, MPI_BYTE, other, round, MPI_COMM_WORLD,
              &requests[other]);
  MPI_Waitall(2 * ranks, requests, MPI_STATUSES_IGNORE);
  for (int other = 0; other < ranks; ++other) {
    for (int i = 0; i < size; ++i)
      expect(received[(size_t)other * (size_t)size + (size_t)i] == byte_of(other, rank, round, i));
  }
  free(received);
  free(sent);
  free(requests);
}

static void reduce(void) {
  long values[kWords], sums[kWords];
  for (int i = 0; i < kWords; ++i) values[i] = (long)(rank + 1) * i;
  MPI_Allreduce(values, sums, kWords, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < kWords; ++i) expect(sums[i] == (long)ranks * (ranks + 1) / 2 * i);
}

/// Everyone writes into the next rank's memory, reads the previous one's, and counts in rank 0's.
static void access_memory(void) {
  long* memory;
  long read[kWords], one = 1, before;
  long* const written = malloc(kWords * sizeof(long));
  MPI_Win window;
  MPI_Win_allocate(2 * kWords * (MPI_Aint)sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory,
                   &window);
  for (int i = 0; i < kWords; ++i) {
    memory[i] = -1;
    memory[kWords + i] = i == 0 ? 0 : (long)rank * 1000000 + i;
    written[i] = (long)rank * kWords + i;
  }
  MPI_Win_fence(0, window);
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  MPI_Put(written, kWords, MPI_LONG, next, 0, kWords, MPI_LONG, window);
  MPI_Get(read, kWords - 1, MPI_LONG, previous, kWords + 1, kWords - 1, MPI_LONG, window);
  MPI_Fetch_and_op(&one, &before, MPI_LONG, 0, kWords, MPI_SUM, window);
  MPI_Win_fence(0, window);
  for (int i = 0; i < kWords; ++i) expect(memory[i] == (long)previous * kWords + i);
  for (int i = 0; i < kWords - 1; ++i) expect(read[i] == (long)previous * 1000000 + i + 1);
  expect(before >= 0 && before < ranks);
  if (rank == 0) expect(memory[kWords] == ranks);
  MPI_Win_fence(0, window);
  MPI_Win_free(&window);
  free(written);
}

int main(int argc, char** argv) {
  long wrong_of_all;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int size = 0; size < kSizes; ++size) {
    for (int round = 0; round < kRounds; ++round) exchange(sizes[size], size * kRounds + round);
  }
  reduce();
  access_memory();
  MPI_Allreduce(&wrong, &wrong_of_all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%d ranks, %ld wrong\n", ranks, wrong_of_all);
  MPI_Finalize();
  return wrong_of_all != 0;
}
