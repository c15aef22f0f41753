/* The GIDs of all devices as verbs have them, and beside them what programs read in /sys/class/infiniband:
 * for each GID
 *
 *     DEVICE INDEX GID TYPE INTERFACE FILE_TYPE FILE_INTERFACE
 *
 * with `-` for a file that is not there. Then how many files there are of each kind: DEVICE types N ndevs N.
 * With an argument it waits until its standard input ends, and says the GIDs again. */
#include <arpa/inet.h>
#include <dirent.h>
#include <infiniband/verbs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRIES = 256, TEXT = 64 };

static void path_of(const char* device, const char* kind, char* path, size_t room) {
  snprintf(path, room, "/sys/class/infiniband/%s/ports/1/gid_attrs/%s", device, kind);
}

static const char* read_file(const char* device, const char* kind, uint32_t index, char text[TEXT]) {
  char folder[200], path[220];
  path_of(device, kind, folder, sizeof folder);
  snprintf(path, sizeof path, "%s/%u", folder, index);
  FILE* const file = fopen(path, "r");
  const char* const said = file != NULL ? fgets(text, TEXT, file) : NULL;
  if (file != NULL) fclose(file);
  if (said == NULL) return "-";
  text[strcspn(text, "\n")] = '\0';
  for (char* each = text; *each != '\0'; ++each)
    if (*each == ' ') *each = '_';
  return text;
}

static int files(const char* device, const char* kind) {
  char path[200];
  path_of(device, kind, path, sizeof path);
  DIR* const folder = opendir(path);
  int count = 0;
  while (folder != NULL) {
    const struct dirent* const entry = readdir(folder);
    if (entry == NULL) break;
    count += entry->d_name[0] != '.';
  }
  if (folder != NULL) closedir(folder);
  return count;
}

static void say(struct ibv_context* context) {
  static struct ibv_gid_entry all[ENTRIES];
  const char* const device = ibv_get_device_name(context->device);
  const ssize_t count = ibv_query_gid_table(context, all, ENTRIES, 0);
  for (ssize_t i = 0; i < count; ++i) {
    struct ibv_gid_entry one;
    char gid[INET6_ADDRSTRLEN], interface[IF_NAMESIZE] = "-", type[TEXT], name[TEXT];
    if (ibv_query_gid_ex(context, 1, all[i].gid_index, &one, 0) != 0 ||
        memcmp(&one, &all[i], sizeof one) != 0) {
      printf("%s: ibv_query_gid_ex and ibv_query_gid_table disagree about %u\n", device, all[i].gid_index);
      exit(1);
    }
    if_indextoname(one.ndev_ifindex, interface);
    printf("%s %u %s %s %s %s %s\n", device, one.gid_index, inet_ntop(AF_INET6, &one.gid, gid, sizeof gid),
           one.gid_type == IBV_GID_TYPE_ROCE_V2 ? "RoCE_v2" : "other", interface,
           read_file(device, "types", one.gid_index, type), read_file(device, "ndevs", one.gid_index, name));
  }
  printf("%s types %d ndevs %d\n", device, files(device, "types"), files(device, "ndevs"));
  fflush(stdout);
}

int main(int arguments, char** unused) {
  (void)unused;
  int count = 0;
  struct ibv_device** const devices = ibv_get_device_list(&count);
  struct ibv_context* contexts[ENTRIES];
  for (int i = 0; i < count; ++i) {
    contexts[i] = ibv_open_device(devices[i]);
    if (contexts[i] == NULL) return 1;
    say(contexts[i]);
  }
  if (arguments > 1) {
    while (getchar() != EOF) continue;
    for (int i = 0; i < count; ++i) say(contexts[i]);
  }
  return 0;
}
