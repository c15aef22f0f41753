// What an XDP program of ours does with each frame that arrives on an interface of the kernel: RoCEv2 to an
// address of the interface goes into the AF_XDP socket of the queue that it came in by, and all else to the
// kernel as if there were no program.
#include <linux/bpf.h>
// After bpf.h, whose types they use.
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

enum { kRocePort = 4791, kFragment = 0x3FFF, kIpv4 = 4, kWordBytes = 4 };

struct vlan_tag {
  __be16 tci;
  __be16 type;
};

struct {
  __uint(type, BPF_MAP_TYPE_XSKMAP);
  __uint(max_entries, 1);  // made as large as there are queues before it is loaded
  __type(key, __u32);
  __type(value, __u32);
} sockets SEC(".maps");

// IPv4 as ::ffff:a.b.c.d, as a GID has it. The loader keeps it like the kernel's addresses.
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 1024);
  __type(key, struct in6_addr);
  __type(value, __u8);
} addresses SEC(".maps");

static __always_inline int is_roce(const struct udphdr* udp, const void* end) {
  return (void*)(udp + 1) <= end && udp->dest == bpf_htons(kRocePort);
}

static __always_inline int is_ours(const struct in6_addr* to) {
  return bpf_map_lookup_elem(&addresses, to) != 0;
}

// A fragment is the kernel's: RoCE is never in pieces. Options are passed over. A group's members are known
// to the stack alone, which drops what is for none.
static __always_inline int is_for_us_over_ipv4(const struct iphdr* ip, const void* end) {
  if ((void*)(ip + 1) > end || ip->version != kIpv4 || ip->protocol != IPPROTO_UDP) return 0;
  if ((ip->frag_off & bpf_htons(kFragment)) != 0) return 0;
  if (!is_roce((const void*)ip + ip->ihl * kWordBytes, end)) return 0;
  if ((ip->daddr & bpf_htonl(0xF0000000)) == bpf_htonl(0xE0000000)) return 1;
  struct in6_addr to = {};
  to.s6_addr16[5] = 0xFFFF;
  to.s6_addr32[3] = ip->daddr;
  return is_ours(&to);
}

// What has extension headers, fragments among them, is the kernel's.
static __always_inline int is_for_us_over_ipv6(const struct ipv6hdr* ip, const void* end) {
  if ((void*)(ip + 1) > end || ip->nexthdr != IPPROTO_UDP || !is_roce((void*)(ip + 1), end)) return 0;
  const struct in6_addr to = ip->daddr;
  return to.s6_addr[0] == 0xFF || is_ours(&to);
}

// "frags": frames in several buffers come by, too, so that the kernel's own may be of any size.
SEC("xdp.frags")
int roce_to_socket(struct xdp_md* context) {
  void* const end = (void*)(long)context->data_end;
  struct ethhdr* const ethernet = (void*)(long)context->data;
  if ((void*)(ethernet + 1) > end) return XDP_PASS;
  __be16 type = ethernet->h_proto;
  void* packet = ethernet + 1;
  if (type == bpf_htons(ETH_P_8021Q)) {
    const struct vlan_tag* const tag = packet;
    if ((void*)(tag + 1) > end) return XDP_PASS;
    type = tag->type;
    packet += sizeof *tag;
  }
  int is_for_us = 0;
  if (type == bpf_htons(ETH_P_IP)) is_for_us = is_for_us_over_ipv4(packet, end);
  if (type == bpf_htons(ETH_P_IPV6)) is_for_us = is_for_us_over_ipv6(packet, end);
  if (!is_for_us) return XDP_PASS;
  return (int)bpf_redirect_map(&sockets, context->rx_queue_index, XDP_PASS);
}

const char kLicense[] SEC("license") = "BSD";
