/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What uroce has beyond <infiniband/verbs.h>: the kinds of memory registration that until now only kernels
 * had. Link with `pkg-config --libs urocedv`. Usable from C and C++.
 *
 * Conventions, those of verbs: a function that returns a pointer returns NULL and sets errno; one that
 * returns int returns 0 or the errno value. Functions are thread-safe unless they say otherwise. Objects of
 * other libraries' devices are refused with EOPNOTSUPP. What begins with `comp_mask` may grow: set unknown
 * bits to 0.
 */
#ifndef INFINIBAND_UROCEDV_H
#define INFINIBAND_UROCEDV_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Devices */

/* True when the device is one of uroce's, so that the functions below may be used on it. */
bool urocedv_is_supported(struct ibv_device* device);

struct urocedv_device_attr {
  uint64_t comp_mask;     /* in: 0 */
  uint32_t reserved_lkey; /* see urocedv_create_qp */
  uint32_t reserved;
};

/* EINVAL: unknown bits in comp_mask. */
int urocedv_query_device(struct ibv_context* context, struct urocedv_device_attr* attr);

/* Bus addresses */

/* A bus address is the device's name for memory that was mapped for it, as the kernel's DMA API hands it out:
 * a number of its own, never the virtual address. It is what DMA regions, the reserved L_Key, physical
 * regions, page lists and FMRs take. Memory stays the caller's and is not pinned; nothing is copied. Mapping
 * the same memory twice gives two addresses. An address keeps its place within a page of 4096 bytes.
 *
 * Unmapping returns when the device does not touch the memory any more. EBUSY: a region covers the mapping.
 */

enum urocedv_dma_direction {
  UROCEDV_DMA_BIDIRECTIONAL = 0,
  UROCEDV_DMA_TO_DEVICE = 1,   /* the device only reads: data to send */
  UROCEDV_DMA_FROM_DEVICE = 2, /* the device only writes: receive buffers, targets of READ */
};

/* What a failed mapping returns; errno says why. */
#define UROCEDV_DMA_ERROR UINT64_MAX

/* EINVAL: no bytes, a range that wraps, no such direction. ENOMEM: no room for one more mapping. */
uint64_t urocedv_dma_map_single(struct ibv_context* context, void* address, size_t length,
                                enum urocedv_dma_direction direction);
/* Takes what map_single returned and was given. EINVAL: no such mapping. */
int urocedv_dma_unmap_single(struct ibv_context* context, uint64_t dma_address, size_t length,
                             enum urocedv_dma_direction direction);

/* The same for a part of a page: `length` bytes from `offset` on. */
uint64_t urocedv_dma_map_page(struct ibv_context* context, void* page, size_t offset, size_t length,
                              enum urocedv_dma_direction direction);
int urocedv_dma_unmap_page(struct ibv_context* context, uint64_t dma_address, size_t length,
                           enum urocedv_dma_direction direction);

/* An entry of a scatter/gather list. The first two are the caller's, the others the mapping's. */
struct urocedv_sg {
  void* address;
  uint32_t length;
  uint32_t dma_length;
  uint64_t dma_address;
};

static inline uint64_t urocedv_sg_dma_address(const struct urocedv_sg* sg) { return sg->dma_address; }
static inline uint32_t urocedv_sg_dma_len(const struct urocedv_sg* sg) { return sg->dma_length; }

/* Maps every entry; how many were mapped: all, or 0 and errno. */
int urocedv_dma_map_sg(struct ibv_context* context, struct urocedv_sg* sg, int entries,
                       enum urocedv_dma_direction direction);
/* All of them or none. */
int urocedv_dma_unmap_sg(struct ibv_context* context, struct urocedv_sg* sg, int entries,
                         enum urocedv_dma_direction direction);

/* Before the CPU reads what the device wrote, and before the device reads what the CPU wrote. CPU and device
 * share their caches here, so nothing but order is needed; the range is checked. EINVAL: not inside a mapping
 * of that direction. */
int urocedv_dma_sync_single_for_cpu(struct ibv_context* context, uint64_t dma_address, size_t length,
                                    enum urocedv_dma_direction direction);
int urocedv_dma_sync_single_for_device(struct ibv_context* context, uint64_t dma_address, size_t length,
                                       enum urocedv_dma_direction direction);

/* Not 0: dma_address is what a failed mapping returned. */
static inline int urocedv_dma_mapping_error(struct ibv_context* context, uint64_t dma_address) {
  (void)context;
  return dma_address == UROCEDV_DMA_ERROR ? ENOMEM : 0;
}

/* Regions by bus address */

/* A region of everything that is mapped for DMA, now and later: an address in an ibv_sge with its lkey is a
 * bus address. `access` is 0 or IBV_ACCESS_LOCAL_WRITE; anything else is EINVAL, for such a region is not for
 * peers. ibv_dereg_mr ends it. */
struct ibv_mr* urocedv_get_dma_mr(struct ibv_pd* pd, int access);

enum urocedv_qp_create_flags {
  /* May use the reserved L_Key (urocedv_device_attr): like that of a DMA region with local write, but the
   * same in every protection domain and never made or ended. Other queue pairs get a local protection error
   * for it. */
  UROCEDV_QP_CREATE_RESERVED_LKEY = 1 << 0,
};

struct urocedv_qp_init_attr {
  uint64_t comp_mask;    /* 0 */
  uint32_t create_flags; /* of enum urocedv_qp_create_flags */
  uint32_t reserved;
};

/* ibv_create_qp_ex with more. `dv_attr` may be NULL. EINVAL: unknown flags or bits. */
struct ibv_qp* urocedv_create_qp(struct ibv_context* context, struct ibv_qp_init_attr_ex* attr,
                                 struct urocedv_qp_init_attr* dv_attr);

#ifdef __cplusplus
}
#endif

#endif /* INFINIBAND_UROCEDV_H */
