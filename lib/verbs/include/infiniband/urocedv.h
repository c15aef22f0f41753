/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What uroce has beyond <infiniband/verbs.h>: the kinds of memory registration that until now only kernels
 * had. Link with `pkg-config --libs urocedv`. Usable from C and C++.
 *
 * Conventions, those of verbs: a function that returns a pointer returns NULL and sets errno; one that
 * returns int returns 0 or the errno value, which is in errno, too. Functions are thread-safe unless they say
 * otherwise. A pointer that is NULL where nothing says that it may be, and a value that is none of its
 * enumeration, are EINVAL; objects of other libraries' devices are EOPNOTSUPP. What begins with `comp_mask`
 * may grow: set unknown bits to 0.
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
  uint64_t comp_mask;          /* in: 0 */
  uint32_t reserved_lkey;      /* see urocedv_create_qp */
  uint32_t max_fast_reg_pages; /* see urocedv_alloc_mr */
};

/* EINVAL: unknown bits in comp_mask. */
int urocedv_query_device(struct ibv_context* context, struct urocedv_device_attr* attr);

/* Bus addresses */

/* A bus address is the device's name for memory that was mapped for it, as the kernel's DMA API hands it out:
 * a number of its own, never the virtual address. It is what DMA regions, the reserved L_Key, physical
 * regions, page lists and FMRs take. Memory stays the caller's and is not pinned; nothing is copied. Mapping
 * the same memory twice gives two addresses. What names bytes by bus address (an ibv_sge, a run, a page) lies
 * in one mapping as a whole; that two mappings have neighbouring addresses makes no difference.
 *
 * An address keeps its place within a page of 4096 bytes. Beyond that, mappings have size classes: the
 * smallest power of two, from 4096 on, that holds the mapping from the beginning of its first page of 4096
 * bytes. That page's bus address is a multiple of the class (if the configuration adds an offset to all bus
 * addresses, memory.bus_offset, of the largest power of two that divides both). So memory that begins with a
 * page of 4096 bytes and is mapped at once, in at least N bytes, N a power of two, can be listed in pages of
 * N bytes. urocedv_query_dma tells class and alignment.
 *
 * IBV_SEND_INLINE does not go by bus address: the CPU copies such data when they are posted, so `addr` is a
 * virtual address and `lkey` is not looked at, also where a DMA region's or the reserved key is used else.
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

struct urocedv_dma_attr {
  uint64_t comp_mask;  /* in: 0 */
  uint64_t length;     /* in: of mappings, in bytes */
  uint64_t alignment;  /* of their bus addresses, if they begin with a page of 4096 bytes */
  uint64_t max_length; /* of any mapping: 2^46 */
  uint32_t
      max_mappings;  /* that live at once in the size class of that length: 2^22 - 1 up to 4 GB, then fewer */
  uint32_t mappings; /* that live now in that class; what is left is the difference */
};

/* What holds for mappings of `length` bytes. EINVAL: unknown bits in comp_mask, or no length that can be
 * mapped. */
int urocedv_query_dma(struct ibv_context* context, struct urocedv_dma_attr* attr);

/* An entry of a scatter/gather list. `address` and `length` are the caller's, the others the mapping's. */
struct urocedv_sg {
  uint64_t comp_mask; /* 0 */
  void* address;
  uint32_t length;
  uint32_t dma_length;
  uint64_t dma_address;
};

static inline uint64_t urocedv_sg_dma_address(const struct urocedv_sg* sg) { return sg->dma_address; }
static inline uint32_t urocedv_sg_dma_len(const struct urocedv_sg* sg) { return sg->dma_length; }

/* Maps every entry; how many were mapped: all, or 0 and errno. EINVAL: unknown bits in a comp_mask, no
 * entries, and as urocedv_dma_map_single. */
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

/* Physical regions */

struct urocedv_phys_buf {
  uint64_t dma_address;
  uint64_t length;
};

/* A region of runs of bus addresses, one after the other at the addresses from `iova` on (`addr` and `length`
 * of the result). Runs may begin and end anywhere; each lies in one mapping. `access` is that of ibv_reg_mr,
 * and with IBV_ACCESS_ZERO_BASED iova is 0. What was mapped for one direction gives no right of the other: a
 * region that lies in memory mapped FROM_DEVICE cannot be sent, and has no REMOTE_ATOMIC, which tells the
 * peer what was there before: that needs memory mapped BIDIRECTIONAL.
 *
 * While the region lives what it lies in cannot be unmapped; ibv_dereg_mr ends it. EINVAL: access, no runs or
 * more than 65536, a run of no bytes, or more bytes than an address can tell. EFAULT: a run is not in one
 * mapping of a suitable direction. ENOMEM. */
struct ibv_mr* urocedv_reg_phys_mr(struct ibv_pd* pd, const struct urocedv_phys_buf* bufs, int count,
                                   int access, uint64_t iova);

/* Fast registration */

/* Regions that are bound to pages by work requests, and unbound by work requests or by the
 * peer (IBV_DEVICE_MEM_MGT_EXTENSIONS). */

enum urocedv_mr_type {
  UROCEDV_MR_TYPE_MEM_REG = 0, /* pages of one size */
};

/* A region that is not bound to anything yet, of at most max_pages pages (urocedv_device_attr) when it is.
 * lkey and rkey are the key that it is to have next. ibv_dereg_mr ends it, bound or not; EBUSY: a page list
 * of its own is posted. EINVAL: no such type, no pages or too many of them. ENOMEM. */
struct ibv_mr* urocedv_alloc_mr(struct ibv_pd* pd, enum urocedv_mr_type type, uint32_t max_pages);

/* The low eight bits of such a region's key belong to the program: it chooses new ones for the next binding.
 * Regions of other kinds keep the key that they were made with, whatever becomes of `lkey` and `rkey` here:
 * ibv_dereg_mr ends them all the same. */
static inline void urocedv_update_key(struct ibv_mr* mr, uint8_t key) {
  mr->lkey = (mr->lkey & 0xFFFFFF00u) | key;
  mr->rkey = (mr->rkey & 0xFFFFFF00u) | key;
}

/* The program writes bus addresses of pages into it and posts it; from then until that work request is
 * complete it is the stack's. */
struct urocedv_page_list {
  struct ibv_context* context;
  uint64_t* pages; /* multiples of the page size that is posted with them */
  uint32_t max_pages;
};

/* EINVAL: max_pages is 0 or too large. ENOMEM. */
struct urocedv_page_list* urocedv_alloc_page_list(struct ibv_context* context, uint32_t max_pages);
/* EBUSY: it is posted. */
int urocedv_free_page_list(struct urocedv_page_list* list);

/* Fills the page list that every region has of its own, and its `addr` (the bus address of the first byte)
 * and `length`, with entries that were mapped by urocedv_dma_map_sg, beginning `*offset` bytes into the first
 * (NULL: 0). All but the first begin and all but the last end on the border of a page, or go on where the one
 * before ends; what does not, ends the list. Returns how many entries it holds; `*offset` is then how many
 * bytes of the last of them it holds, or 0 when that is all. 0 and errno EINVAL: page_size is not a power of
 * two from 4096 on, there is no first byte, or no region of urocedv_alloc_mr; EBUSY: the list is posted. */
int urocedv_map_mr_sg(struct ibv_mr* mr, const struct urocedv_sg* sg, int entries, uint64_t* offset,
                      uint64_t page_size);

struct urocedv_reg_mr_attr {
  uint64_t comp_mask; /* 0 */
  uint64_t iova;      /* address of the first byte under the key */
  uint32_t key;       /* the key: that of the region, but for its low eight bits */
  int access;         /* as that of ibv_reg_mr, but not ZERO_BASED */
  /* NULL: the region's own list, as urocedv_map_mr_sg has filled it; what follows is not looked at. */
  struct urocedv_page_list* page_list;
  uint64_t offset; /* of the first byte in the first page */
  uint64_t length;
  uint32_t pages;      /* in the list */
  uint32_t page_shift; /* a page is 2^page_shift bytes: 12 to 40 */
};

/* Between ibv_wr_start and ibv_wr_complete of a queue pair that was made with send_ops_flags: the region is
 * bound to the pages when it is this request's turn, before anything that is posted behind it begins. Until
 * the region is unbound its pages cannot be unmapped on the bus.
 *
 * Flags: IBV_SEND_SIGNALED, IBV_SEND_FENCE. The completion has opcode UROCEDV_WC_REG_MR. Errors of
 * ibv_wr_complete: EINVAL (a page that is not mapped as `access` asks, or not a multiple of its size; too few
 * pages for the length, or too many for the region; access; comp_mask; another device's region or none of
 * urocedv_alloc_mr), EOPNOTSUPP (an access that no region has), EBUSY (the list is posted). Completion
 * status IBV_WC_MW_BIND_ERR, the "memory management operation error": the region is bound already, is of
 * another protection domain, or the key is not one of its. A request that is flushed may have been executed;
 * ibv_dereg_mr ends the region all the same. */
void urocedv_wr_reg_mr(struct ibv_qp_ex* qp, struct ibv_mr* mr, const struct urocedv_reg_mr_attr* attr);

#define UROCEDV_WC_REG_MR IBV_WC_DRIVER1

/* The same requests for ibv_post_send: `wr` with opcode IBV_WR_DRIVER1, at the beginning of a
 * urocedv_send_wr. It may stand anywhere in a list; `wr.next` goes on with requests of either kind. What is
 * wrong is ibv_post_send's return value, with `bad_wr`. */
enum urocedv_wr_opcode {
  UROCEDV_WR_REG_MR = 1,        /* as urocedv_wr_reg_mr, with reg_mr; no list */
  UROCEDV_WR_RDMA_READ_INV = 2, /* as urocedv_wr_rdma_read_inv, with invalidate_key, wr.rdma and the list */
};

struct urocedv_send_wr {
  struct ibv_send_wr wr;
  uint64_t comp_mask; /* 0 */
  uint32_t opcode;    /* of enum urocedv_wr_opcode: what IBV_WR_DRIVER1 stands for */
  uint32_t invalidate_key;
  struct {
    struct ibv_mr* mr;
    struct urocedv_reg_mr_attr attr;
  } reg_mr;
};

/* A region is unbound by IBV_WR_LOCAL_INV (ibv_post_send) and ibv_wr_local_inv, by a peer's SEND with
 * invalidate, or by a READ with invalidate. When any of these is complete not one further byte moves under
 * the key. LOCAL_INV begins when all before it is complete, and nothing behind it begins before it is. A key
 * that is unbound already stays so, and the request succeeds. Status IBV_WC_MW_BIND_ERR: no key of this
 * protection domain, or of no region of urocedv_alloc_mr. A peer that sends such a key gets a remote access
 * error, and the receive that its message took fails with IBV_WC_REM_INV_REQ_ERR. */

/* READ, and when the data is there the local region `invalidate_key` is unbound: one work request, one
 * completion (IBV_WC_RDMA_READ). What is read into is told by ibv_wr_set_sge, as for ibv_wr_rdma_read. */
void urocedv_wr_rdma_read_inv(struct ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_addr,
                              uint32_t invalidate_key);

/* Fast memory regions (FMR) */

/* They are mapped again and again, by calls. */

struct urocedv_fmr_attr {
  uint64_t comp_mask;  /* 0 */
  uint32_t max_pages;  /* of a mapping: 1 to 65536 */
  uint32_t max_maps;   /* before it has to be unmapped: 1 to 255 */
  uint32_t page_shift; /* a page is 2^page_shift bytes: 12 to 30 */
};

/* The keys change with every mapping, in their low eight bits. */
struct urocedv_fmr {
  struct ibv_context* context;
  struct ibv_pd* pd;
  uint32_t lkey;
  uint32_t rkey;
};

/* `access` is that of ibv_reg_mr, but neither ZERO_BASED nor MW_BIND. EINVAL: access, a limit, or unknown
 * bits in comp_mask. ENOMEM. ibv_query_device tells how many there can be (max_fmr) and the largest max_maps
 * (max_map_per_fmr). */
struct urocedv_fmr* urocedv_alloc_fmr(struct ibv_pd* pd, int access, const struct urocedv_fmr_attr* attr);

/* Lays the pages, bus addresses, one after the other from `iova` on: the region is pages x page size long.
 * Where it was mapped before it is not, any more: requests that come now find the old key dead, and when
 * urocedv_unmap_fmr or urocedv_dma_unmap_* of the old pages returns the last that came before is over. While
 * they are mapped here the pages cannot be unmapped on the bus.
 *
 * After a failure the old mapping stands. EINVAL: no pages or too many; a page or iova that is no multiple of
 * the page size. EAGAIN: max_maps is reached, and the same call succeeds after urocedv_unmap_fmr. EFAULT: a
 * page is not in one mapping of a suitable direction (as for urocedv_reg_phys_mr). EBUSY: another thread is
 * unmapping it. */
int urocedv_map_phys_fmr(struct urocedv_fmr* fmr, const uint64_t* page_list, int pages, uint64_t iova);

/* Ends the mappings of all in the list, and waits once for all: afterwards no byte moves under a key that any
 * of them has had. One that is not mapped stays so. EINVAL: FMRs of several devices. */
int urocedv_unmap_fmr(struct urocedv_fmr* const* fmrs, int count);

/* EBUSY: mapped. */
int urocedv_dealloc_fmr(struct urocedv_fmr* fmr);

/* Pools of FMRs */

/* What is given back stays mapped until it is needed for other pages or its mappings are used
 * up. Then it is dirty, and all that are dirty are unmapped together, by the call that reaches the watermark
 * or finds no other FMR. Until then the old key works and the pages cannot be unmapped on the bus (EBUSY);
 * urocedv_fmr_pool_flush ends both. */

struct urocedv_fmr_pool {
  struct ibv_context* context;
  struct ibv_pd* pd;
};

/* Valid until it is given back. */
struct urocedv_pool_fmr {
  struct urocedv_fmr_pool* pool;
  uint32_t lkey;
  uint32_t rkey;
};

struct urocedv_fmr_pool_param {
  uint64_t comp_mask; /* 0 */
  int access;
  struct urocedv_fmr_attr fmr; /* max_maps 0: 32 */
  uint32_t pool_size;          /* 1 to 65536 */
  uint32_t dirty_watermark;    /* 1 to pool_size; so many dirty ones are unmapped */
  int cache;                   /* not 0: the same pages at the same iova share one mapping */
  /* May be NULL. After each flush, in the thread that caused it; may use the pool, but not destroy it
   * (EBUSY), and gets no FMR of it any more when the flush is that of its destruction (EBUSY). */
  void (*flush_function)(struct urocedv_fmr_pool* pool, void* arg);
  void* flush_arg;
};

/* EINVAL: as urocedv_alloc_fmr, or a size. ENOMEM. */
struct urocedv_fmr_pool* urocedv_create_fmr_pool(struct ibv_pd* pd,
                                                 const struct urocedv_fmr_pool_param* param);
/* Flushes the pool first. EBUSY, and the pool lives on: not everything was given back, or a flush function
 * has not returned. */
int urocedv_destroy_fmr_pool(struct urocedv_fmr_pool* pool);

/* EAGAIN: every FMR of the pool is in use. EBUSY: the pool is being destroyed. Otherwise as
 * urocedv_map_phys_fmr. */
struct urocedv_pool_fmr* urocedv_fmr_pool_map_phys(struct urocedv_fmr_pool* pool, const uint64_t* page_list,
                                                   int pages, uint64_t iova);
/* As often as it was returned. EINVAL: more often. */
int urocedv_fmr_pool_unmap(struct urocedv_pool_fmr* fmr);
/* Unmaps all that are not in use; afterwards no byte moves under their keys. */
int urocedv_fmr_pool_flush(struct urocedv_fmr_pool* pool);

struct urocedv_fmr_pool_stats {
  uint64_t comp_mask; /* in: 0 */
  uint64_t hits;      /* found in the cache */
  uint64_t misses;    /* mapped */
  uint64_t maps;      /* mappings made, for misses */
  uint64_t unmaps;    /* mappings ended by flushes */
  uint64_t flushes;   /* that unmapped something */
  uint32_t in_use;    /* now; the three together are pool_size */
  uint32_t free;
  uint32_t dirty;
  uint32_t reserved;
};

int urocedv_fmr_pool_query(struct urocedv_fmr_pool* pool, struct urocedv_fmr_pool_stats* stats);

/* Registered memory */

enum urocedv_memory_flags {
  UROCEDV_MEMORY_HUGEPAGES_ONLY = 1 << 0, /* otherwise ordinary pages will do where there are no others */
  UROCEDV_MEMORY_OWN_REGION = 1 << 1,     /* its keys are good for nothing else */
};

#define UROCEDV_ANY_NODE (-1)

/* Memory in hugepages of 2 MB where there are any, registered and mapped for DMA in both directions. */
struct urocedv_memory {
  struct ibv_context* context;
  struct ibv_pd* pd;
  void* addr;    /* a multiple of 64, and from 4096 bytes on of 4096 */
  size_t length; /* as it was asked for */
  uint32_t lkey; /* for addresses from `addr` on */
  uint32_t rkey;
  uint64_t dma_address; /* of the first byte */
  size_t page_size;     /* 2 MB, or that of the ordinary pages that were taken instead */
  int node;             /* where it lies; UROCEDV_ANY_NODE: the kernel does not say */
  int reserved;
  /* As a region of ibv_reg_mr, for what takes one, such as binding a window (with IBV_ACCESS_MW_BIND). It is
   * of this struct: ibv_dereg_mr and ibv_rereg_mr give EINVAL. */
  struct ibv_mr* mr;
};

/* `access` is that of ibv_reg_mr without ZERO_BASED; `node` a memory node or UROCEDV_ANY_NODE; `flags` of
 * enum urocedv_memory_flags. Up to 1 MB comes from memory that was registered before, which is what makes it
 * fast: all such memory of a domain with the same access and node has the same keys, so a peer that is given
 * the rkey of some is given all. Say OWN_REGION if that is not wanted. The bytes are not zeroed. With
 * memory.honour_memlock it counts against RLIMIT_MEMLOCK, hugepages too: what shares a region in steps of
 * 2 MB.
 *
 * EINVAL: no bytes, access, no such node, unknown flags. ENOMEM: none is left, of that kind, on that node, or
 * within RLIMIT_MEMLOCK. */
struct urocedv_memory* urocedv_alloc_memory(struct ibv_pd* pd, size_t bytes, int node, int access,
                                            uint32_t flags);

/* Frees the struct, too. The keys of memory that shared them live on: a peer that still uses them reaches
 * what is allocated there next. EBUSY: it has a region of its own, and something is bound to that or covers
 * the memory on the bus; free it again later, its own keys may be dead already. */
int urocedv_free_memory(struct urocedv_memory* memory);

/* Memory windows */

enum urocedv_mw_type {
  UROCEDV_MW_TYPE_1 = 1,  /* bound by ibv_bind_mw, also while it is bound; of the protection domain */
  UROCEDV_MW_TYPE_2A = 2, /* bound by IBV_WR_BIND_MW when it is free; of the protection domain */
  UROCEDV_MW_TYPE_2B = 3, /* the same, and only of the queue pair that bound it */
};

/* ibv_alloc_mw whatever the device is configured to make of type 2 (`device.window_type2`, which also decides
 * about IBV_DEVICE_MEM_WINDOW_TYPE_2A and _2B). Windows lie over regions of ibv_reg_mr, urocedv_alloc_memory,
 * urocedv_reg_phys_mr and urocedv_alloc_mr that were given IBV_ACCESS_MW_BIND. A window gives no right that
 * the memory below it does not: the region must allow locally what the window lets peers do, which for
 * REMOTE_READ is reading, for REMOTE_WRITE writing, and for REMOTE_ATOMIC both (IBV_WC_MW_BIND_ERR). */
struct ibv_mw* urocedv_alloc_mw(struct ibv_pd* pd, enum urocedv_mw_type type);

/* Flush */

/* IBV_ACCESS_FLUSH_* of later verbs.h: rights of a region, and of a queue pair (qp_access_flags), to be
 * flushed by a peer. There is no persistent memory, so the second is EOPNOTSUPP. */
#define UROCEDV_ACCESS_FLUSH_GLOBAL (1 << 8)
#define UROCEDV_ACCESS_FLUSH_PERSISTENT (1 << 9)

enum urocedv_flush_type {
  UROCEDV_FLUSH_GLOBAL = 1 << 0,     /* what was written before is visible to everybody */
  UROCEDV_FLUSH_PERSISTENT = 1 << 1, /* it survives a loss of power */
};

enum urocedv_flush_level { UROCEDV_FLUSH_RANGE = 0, UROCEDV_FLUSH_MR = 1 /* all of the region */ };

/* Between ibv_wr_start and ibv_wr_complete of a queue pair that was made with send_ops_flags: when it
 * completes, with opcode UROCEDV_WC_FLUSH, what this queue pair wrote to the remote range before is as `type`
 * says, which is a set. Nothing is told with ibv_wr_set_*. It counts against max_rd_atomic as a READ does.
 * Errors of ibv_wr_complete: EINVAL (no type or an unknown one, an unknown level, more than 2^31 bytes).
 * Completion status IBV_WC_REM_ACCESS_ERR: the range, or a right of its region; IBV_WC_REM_INV_REQ_ERR: the
 * peer's queue pair has no right to it, such as that to persistence, or does not know the operation. */
void urocedv_wr_flush(struct ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_addr, size_t length, uint8_t type,
                      uint8_t level);

#define UROCEDV_WC_FLUSH ((enum ibv_wc_opcode)8)

/* Congestion control */

/* What decides how fast a queue pair sends. A new one has what the configuration says (congestion.control),
 * and the parameters of each are the configuration's. urocedv_congestion_name lists all that there are. */
enum urocedv_congestion_control {
  UROCEDV_CONGESTION_NONE = 0,  /* its window alone */
  UROCEDV_CONGESTION_DCQCN = 1, /* CNPs of its peer, which follow marks (ECN); it sends ECT(0) */
  UROCEDV_CONGESTION_SWIFT = 2, /* round trips; RC and XRC */
};

struct urocedv_qp_congestion {
  uint64_t comp_mask; /* in: 0 */
  enum urocedv_congestion_control control;
  uint32_t window_packets;      /* that may be unanswered; 0: of a service without answers */
  uint64_t rate_kbps;           /* that packets leave at, in kbit/s; 0: nothing waits for its time */
  uint64_t cnps;                /* that came */
  uint64_t round_trip_ns;       /* smoothed as TCP does it; 0: none was measured yet */
  uint64_t least_round_trip_ns; /* the shortest of this connection */
};

/* What holds for the queue pair now. EINVAL: unknown bits in comp_mask. */
int urocedv_query_qp_congestion(struct ibv_qp* qp, struct urocedv_qp_congestion* congestion);

/* Another algorithm, or the same, which begins anew; it stays what it is when the queue pair is reset. In any
 * state, and while it sends. EINVAL: of UD, which has none. EOPNOTSUPP: one by round trips (SWIFT) on UC. */
int urocedv_modify_qp_congestion(struct ibv_qp* qp, enum urocedv_congestion_control control);

/* The name that congestion.control has for an algorithm. Algorithms have the numbers from 0 on. EINVAL: none
 * has this one. */
const char* urocedv_congestion_name(enum urocedv_congestion_control control);

#ifdef __cplusplus
}
#endif

#endif /* INFINIBAND_UROCEDV_H */
