// What DPDK's drivers of mlx4 and mlx5 are to the process that loads them: a library of EAL's (`-d`) that
// needs libibverbs.so.1 and calls it. No driver of anything. It writes into the file VERBS_PMD_REPORT which
// libibverbs.so.1 it got.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void report(void) {
  const char* const path = getenv("VERBS_PMD_REPORT");
  FILE* const file = path == NULL ? NULL : fopen(path, "w");
  if (file == NULL) return;
  Dl_info found = {0};
  dladdr(dlsym(RTLD_DEFAULT, "ibv_get_device_list"), &found);
  int count = 0;
  struct ibv_device** const devices = ibv_get_device_list(&count);
  for (int i = 0; i < count; ++i) fprintf(file, "device %s\n", ibv_get_device_name(devices[i]));
  if (devices != NULL) ibv_free_device_list(devices);
  fprintf(file, "%s\n", found.dli_fname);
  fclose(file);
}
