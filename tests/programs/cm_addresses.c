/* What rdma_cm makes of addresses, in a line:
 *
 *     cm_addresses bind ADDRESS
 *     cm_addresses resolve ADDRESS [FROM]
 *     cm_addresses join GROUP FROM
 *
 * It says the device, the local and the peer's address, each as numbers and with its zone, and whether
 * the id's route has the same; or the name of the errno, or of the event, that says why not. */
#define _GNU_SOURCE
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WAIT_MS = 5000, PORT = 7471 };

static struct rdma_event_channel* channel;
static struct rdma_cm_id* id;

static _Noreturn void end(const char* text) {
  printf("%s\n", text);
  exit(0);
}

static void must(int returned) {
  if (returned != 0) end(strerrorname_np(errno));
}

static struct sockaddr* address_of(const char* text, uint16_t port) {
  struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
  struct addrinfo* found;
  const int error = getaddrinfo(text, NULL, &hints, &found);
  if (error != 0) end(gai_strerror(error));
  if (found->ai_family == AF_INET)
    ((struct sockaddr_in*)found->ai_addr)->sin_port = htons(port);
  else
    ((struct sockaddr_in6*)found->ai_addr)->sin6_port = htons(port);
  return found->ai_addr;
}

static const char* text_of(const struct sockaddr* address, char text[NI_MAXHOST]) {
  const socklen_t length =
      address->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
  if (address->sa_family == 0 || getnameinfo(address, length, text, NI_MAXHOST, NULL, 0, NI_NUMERICHOST) != 0)
    strcpy(text, "-");
  return text;
}

static void take(enum rdma_cm_event_type wanted) {
  struct pollfd waiting = {channel->fd, POLLIN, 0};
  struct rdma_cm_event* event;
  if (poll(&waiting, 1, WAIT_MS) != 1) end("no event");
  must(rdma_get_cm_event(channel, &event));
  if (event->event != wanted) end(rdma_event_str(event->event));
  rdma_ack_cm_event(event);
}

int main(int count, char** arguments) {
  if (count < 3) return 2;
  char local[NI_MAXHOST], peer[NI_MAXHOST], source[NI_MAXHOST], destination[NI_MAXHOST];
  const char* const call = arguments[1];
  const int joins = strcmp(call, "join") == 0;
  channel = rdma_create_event_channel();
  if (channel == NULL) end(strerrorname_np(errno));
  must(rdma_create_id(channel, &id, NULL, joins ? RDMA_PS_UDP : RDMA_PS_TCP));
  struct sockaddr* const from = count > 3 ? address_of(arguments[3], 0) : NULL;
  if (strcmp(call, "bind") == 0) {
    must(rdma_bind_addr(id, address_of(arguments[2], 0)));
  } else if (joins) {
    must(rdma_bind_addr(id, from));
    must(rdma_join_multicast(id, address_of(arguments[2], 0), NULL));
    take(RDMA_CM_EVENT_MULTICAST_JOIN);
  } else {
    must(rdma_resolve_addr(id, from, address_of(arguments[2], PORT), WAIT_MS));
    take(RDMA_CM_EVENT_ADDR_RESOLVED);
  }
  text_of(rdma_get_local_addr(id), local);
  text_of(rdma_get_peer_addr(id), peer);
  text_of(&id->route.addr.src_addr, source);
  text_of(&id->route.addr.dst_addr, destination);
  const int same = strcmp(local, source) == 0 && strcmp(peer, destination) == 0;
  printf("%s %s %s%s\n", id->verbs != NULL ? ibv_get_device_name(id->verbs->device) : "-", local, peer,
         same ? "" : " (the route says otherwise)");
  rdma_destroy_id(id);
  rdma_destroy_event_channel(channel);
  return 0;
}
