/* Preloaded into other people's programs, over whatever librdmacm they run, so that nothing is started by a
 * guess. The file that UROCE_TEST_READY names grows by a byte each time the program listens or has joined a
 * group.
 *
 * perftest's -R connects twice, and its server listens anew in between without a word to the client; qperf's
 * tells its port before it listens. The client's connection request may come too early and is refused: a race
 * between the two programs. UROCE_TEST_PEER names the file of the server: connection request N waits until it
 * has listened N times. Where there is no such file to look at UROCE_TEST_PAUSE_MS is the time that each
 * waits.
 *
 * UROCE_TEST_ACK_TIMEOUT: of its connections, 4.096 us times two to that power. perftest's -R has no option
 * for it.
 * UROCE_TEST_NO_SLEEP: sleep() returns at once. mckey gives a subnet manager three seconds, and Ethernet has
 * none. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void ready(void) {
  const char* path = getenv("UROCE_TEST_READY");
  int file = path == NULL ? -1 : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) return;
  if (write(file, "!", 1) != 1) abort();
  close(file);
}

/* Of a library behind us, or of one that the program has loaded for itself. */
static void* next_of(const char* name) {
  void* next = dlsym(RTLD_NEXT, name);
  void* library = next == NULL ? dlopen("librdmacm.so.1", RTLD_LAZY | RTLD_NOLOAD) : NULL;
  if (library != NULL) next = dlsym(library, name);
  if (next == NULL) abort();
  return next;
}

int rdma_listen(struct rdma_cm_id* id, int backlog) {
  int (*next)(struct rdma_cm_id*, int) = NULL;
  *(void**)&next = next_of("rdma_listen");
  int result = next(id, backlog);
  if (result == 0) ready();
  return result;
}

int rdma_get_cm_event(struct rdma_event_channel* channel, struct rdma_cm_event** event) {
  int (*next)(struct rdma_event_channel*, struct rdma_cm_event**) = NULL;
  *(void**)&next = next_of("rdma_get_cm_event");
  int result = next(channel, event);
  if (result == 0 && (*event)->event == RDMA_CM_EVENT_MULTICAST_JOIN) ready();
  return result;
}

static void wait_for_peer(void) {
  static int requests = 0;
  const char* peer = getenv("UROCE_TEST_PEER");
  const char* pause = getenv("UROCE_TEST_PAUSE_MS");
  struct stat of_peer;
  ++requests;
  while (peer != NULL && stat(peer, &of_peer) == 0 && of_peer.st_size < requests) usleep(1000);
  if (pause != NULL) usleep(1000 * (unsigned)atoi(pause));
}

static void set_ack_timeout(struct rdma_cm_id* id) {
  const char* text = getenv("UROCE_TEST_ACK_TIMEOUT");
  if (text == NULL) return;
  int (*set)(struct rdma_cm_id*, int, int, void*, size_t) = NULL;
  *(void**)&set = next_of("rdma_set_option");
  uint8_t timeout = (uint8_t)atoi(text);
  if (set(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof timeout) != 0) abort();
}

int rdma_connect(struct rdma_cm_id* id, struct rdma_conn_param* parameters) {
  int (*next)(struct rdma_cm_id*, struct rdma_conn_param*) = NULL;
  *(void**)&next = next_of("rdma_connect");
  wait_for_peer();
  set_ack_timeout(id);
  return next(id, parameters);
}

unsigned int sleep(unsigned int seconds) {
  unsigned int (*next)(unsigned int) = NULL;
  *(void**)&next = next_of("sleep");
  return getenv("UROCE_TEST_NO_SLEEP") != NULL ? 0 : next(seconds);
}
