#include "apps/info/capabilities.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "client/failure.h"
#include "client/verbs_objects.h"

namespace uroce::info {
namespace {

constexpr Capability field(Place place, const char* name, const char* test, size_t offset, size_t bytes,
                           uint64_t mask = ~uint64_t{0}) {
  return {
      .place = place, .name = name, .test = test, .offset = offset, .bytes = bytes, .mask = mask, .type = {}};
}

constexpr Capability none(Capability capability) {
  capability.absent = true;
  return capability;
}

constexpr Capability of_type(Place place, const char* name, const char* test, ibv_qp_type type,
                             uint64_t flag = 0) {
  return {.place = place, .name = name, .test = test, .mask = flag, .type = type};
}

constexpr Capability completion(const char* name, const char* test, uint64_t flag) {
  return {.place = Place::kCompletion, .name = name, .test = test, .mask = flag, .type = {}};
}

constexpr Capability function(const char* name, const char* test) {
  return {.place = Place::kFunction, .name = name, .test = test, .type = {}};
}

constexpr Capability behaviour(const char* name, const char* test) {
  return {.place = Place::kBehaviour, .name = name, .test = test, .type = {}};
}

// A name and what it stands for, from one word. A row stays one line, however long.
// clang-format off
#define OF(structure, field) offsetof(structure, field), sizeof(static_cast<structure*>(nullptr)->field)
#define DEVICE(name, test) field(Place::kDevice, #name, test, OF(ibv_device_attr_ex, name))
#define DEVICE_FLAG(flag, test) field(Place::kDevice, #flag, test, OF(ibv_device_attr_ex, device_cap_flags_ex), flag)
#define NO_DEVICE(name, test) none(DEVICE(name, test))
#define PORT(name, test) field(Place::kPort, #name, test, OF(ibv_port_attr, name))
#define PORT_FLAG(name, flag, test) field(Place::kPort, #flag, test, OF(ibv_port_attr, name), flag)
#define SERVICE(type, test) of_type(Place::kService, #type, test, type)
#define NO_SERVICE(type, test) none(SERVICE(type, test))
#define OPERATION(type, operation, test) of_type(Place::kOperation, "IBV_QP_EX_WITH_" #operation " of " #type, test, IBV_QPT_##type, IBV_QP_EX_WITH_##operation)
#define COMPLETION(flag, test) completion("IBV_WC_EX_WITH_" #flag, test, IBV_WC_EX_WITH_##flag)

constexpr Capability kCapabilities[] = {
    DEVICE(orig_attr.max_mr_size, "verbs: Objects.RegionsAreCheckedWhenTheyAreMade"),
    DEVICE(orig_attr.page_size_cap, "dv: FastRegion.OfAnSgList"),
    DEVICE(orig_attr.max_qp, "verbs: Limits.QueuePairs"),
    DEVICE(orig_attr.max_qp_wr, "verbs: Limits.LongestQueuesOfTheLongestRequests"),
    DEVICE(orig_attr.max_sge, "verbs: Limits.LongestQueuesOfTheLongestRequests"),
    DEVICE(orig_attr.max_sge_rd, "verbs: Transfer.PiecesAreGatheredAndScattered"),
    DEVICE(orig_attr.max_cq, "verbs: Limits.CompletionQueues"),
    DEVICE(orig_attr.max_cqe, "verbs: Limits.LongestQueuesOfTheLongestRequests"),
    DEVICE(orig_attr.max_mr, "verbs: Objects.RegionsAreCheckedWhenTheyAreMade"),
    DEVICE(orig_attr.max_pd, "verbs: Limits.Domains"),
    DEVICE(orig_attr.max_qp_rd_atom, "verbs: Modify.ValuesHaveBounds"),
    DEVICE(orig_attr.max_res_rd_atom, "verbs: Modify.ValuesHaveBounds"),
    DEVICE(orig_attr.max_qp_init_rd_atom, "verbs: Modify.ValuesHaveBounds"),
    DEVICE(orig_attr.atomic_cap, "verbs: Atomics"),
    DEVICE(orig_attr.max_mw, "dv: Window.TheVerbMakesWhatTheDeviceAdvertises"),
    DEVICE(orig_attr.max_fmr, "dv: Limits.OfFmrs_ExpectWhatThereIs"),
    DEVICE(orig_attr.max_map_per_fmr, "dv: Limits.OfFmrs_ExpectWhatThereIs"),
    DEVICE(orig_attr.max_mcast_grp, "verbs: Datagrams.MembershipHasRulesAndLimits"),
    DEVICE(orig_attr.max_mcast_qp_attach, "verbs: Datagrams.MembershipHasRulesAndLimits"),
    DEVICE(orig_attr.max_total_mcast_qp_attach, "verbs: Datagrams.MembershipHasRulesAndLimits"),
    DEVICE(orig_attr.max_ah, "verbs: Limits.AddressHandles"),
    DEVICE(orig_attr.max_srq, "verbs: Limits.SharedReceiveQueues"),
    DEVICE(orig_attr.max_srq_wr, "verbs: Limits.LongestQueuesOfTheLongestRequests"),
    DEVICE(orig_attr.max_srq_sge, "verbs: Limits.LongestQueuesOfTheLongestRequests"),
    DEVICE(orig_attr.max_pkeys, "verbs addresses: PartitionKeys.AreThoseOfTheConfiguration"),
    DEVICE(orig_attr.local_ca_ack_delay, "verbs: Transfer.APeerThatIsGoneIsNoticed"),
    DEVICE(completion_timestamp_mask, "verbs: Extended.CompletionsSayWhenTheyHappened"),
    DEVICE(hca_core_clock, "verbs: Extended.CompletionsSayWhenTheyHappened"),
    DEVICE_FLAG(IBV_DEVICE_RC_RNR_NAK_GEN, "verbs: SharedReceiveQueue.AnEmptyOneMakesSendersWait"),
    DEVICE_FLAG(IBV_DEVICE_CURR_QP_STATE_MOD, "verbs: Modify.OnlyAlongTheStates"),
    DEVICE_FLAG(IBV_DEVICE_MEM_MGT_EXTENSIONS, "dv: FastRegion"),
    DEVICE_FLAG(IBV_DEVICE_MEM_WINDOW, "dv: Window.APeerWritesAndReadsInsideIt"),
    DEVICE_FLAG(IBV_DEVICE_MEM_WINDOW_TYPE_2A, "dv with windows 2A: Window.TheVerbMakesWhatTheDeviceAdvertises"),
    DEVICE_FLAG(IBV_DEVICE_MEM_WINDOW_TYPE_2B, "dv: Window.TheVerbMakesWhatTheDeviceAdvertises"),
    DEVICE_FLAG(IBV_DEVICE_XRC, "verbs: XrcObjects"),
    DEVICE_FLAG(IBV_DEVICE_SRQ_RESIZE, "verbs: SharedReceiveQueueResize"),
    NO_DEVICE(odp_caps.general_caps, "verbs: OpenDevice.ExtendedAttributesRepeatThePlainOnesAndHonourTheSize"),
    NO_DEVICE(tso_caps.max_tso, "verbs: Objects.OtherTransportsAreNotThereAndNonsenseIsInvalid"),
    NO_DEVICE(rss_caps.supported_qpts, "verbs: Objects.OtherTransportsAreNotThereAndNonsenseIsInvalid"),
    NO_DEVICE(raw_packet_caps, "verbs: Objects.OtherTransportsAreNotThereAndNonsenseIsInvalid"),
    NO_DEVICE(tm_caps.flags, "verbs: SharedReceiveQueue.RefusesWhatCannotBe"),
    DEVICE(cq_mod_caps.max_cq_count, "verbs: Moderation.AnEventComesWhenThereAreAsMany"),
    DEVICE(cq_mod_caps.max_cq_period, "verbs: Moderation.AnEventComesOfFewerWhenTheTimeIsOver"),
    NO_DEVICE(max_dm_size, "verbs: OpenDevice.WhatIsNotThereFailsWithEopnotsupp"),
    NO_DEVICE(pci_atomic_caps.compare_swap, "verbs: OpenDevice.WhatIsNotThereFailsWithEopnotsupp"),
    PORT(max_mtu, "verbs: OpenDevice.PortIsAnActiveEthernetPort"),
    PORT(active_mtu, "engine: Device.HasThePathMtuThatFitsTheLink"),
    PORT(gid_tbl_len, "verbs addresses: Gids.EachIsSourceAndDestination"),
    PORT(max_msg_sz, "verbs: Transfer.BadRequestsAreRefused"),
    PORT(pkey_tbl_len, "verbs addresses: PartitionKeys.AreThoseOfTheConfiguration"),
    PORT_FLAG(port_cap_flags, IBV_PORT_IP_BASED_GIDS, "verbs: OpenDevice.EveryGidIsRoceV2"),
    PORT_FLAG(flags, IBV_QPF_GRH_REQUIRED, "verbs: Modify.TheAddressMustLeadSomewhere"),
    SERVICE(IBV_QPT_RC, "verbs: Transfer"),
    SERVICE(IBV_QPT_UC, "verbs: Unreliable"),
    SERVICE(IBV_QPT_UD, "verbs: Datagrams"),
    SERVICE(IBV_QPT_XRC_SEND, "verbs: Xrc"),
    SERVICE(IBV_QPT_XRC_RECV, "verbs: Xrc"),
    NO_SERVICE(IBV_QPT_RAW_PACKET, "verbs: Objects.OtherTransportsAreNotThereAndNonsenseIsInvalid"),
    NO_SERVICE(IBV_QPT_DRIVER, "verbs: Objects.OtherTransportsAreNotThereAndNonsenseIsInvalid"),
    OPERATION(RC, RDMA_WRITE, "verbs: Builders.MakeEveryRequestOfTheService"),
    OPERATION(RC, RDMA_WRITE_WITH_IMM, "verbs: Builders.MakeEveryRequestOfTheService"),
    OPERATION(RC, SEND, "verbs: Builders.MakeEveryRequestOfTheService"),
    OPERATION(RC, SEND_WITH_IMM, "verbs: Builders.MakeEveryRequestOfTheService"),
    OPERATION(RC, RDMA_READ, "verbs: Builders.MakeEveryRequestOfTheService"),
    OPERATION(RC, ATOMIC_CMP_AND_SWP, "verbs: Atomics.DescribedOneByOne"),
    OPERATION(RC, ATOMIC_FETCH_AND_ADD, "verbs: Atomics.DescribedOneByOne"),
    OPERATION(RC, LOCAL_INV, "dv: FastRegion.SendWithInvalidateByBuilder"),
    OPERATION(RC, BIND_MW, "dv: WindowByBuilder.IsBoundAndUsed"),
    OPERATION(RC, SEND_WITH_INV, "dv: FastRegion.SendWithInvalidateByBuilder"),
    OPERATION(RC, ATOMIC_WRITE, "dv: Flush.AnAtomicWriteOfBothInterfaces"),
    OPERATION(UC, RDMA_WRITE, "verbs: Builders.MakeEveryRequestOfTheService"),
    OPERATION(UC, RDMA_WRITE_WITH_IMM, "verbs: Builders.MakeEveryRequestOfTheService"),
    OPERATION(UC, SEND, "verbs: Builders.MakeEveryRequestOfTheService"),
    OPERATION(UC, SEND_WITH_IMM, "verbs: Builders.MakeEveryRequestOfTheService"),
    OPERATION(UC, LOCAL_INV, "verbs: Unreliable.ExtendedQueuePairsAreMadeForWhatTheServiceHas"),
    OPERATION(UC, BIND_MW, "verbs: Unreliable.ExtendedQueuePairsAreMadeForWhatTheServiceHas"),
    OPERATION(UD, SEND, "verbs: BuildersOfDatagrams.MakeBothRequests"),
    OPERATION(UD, SEND_WITH_IMM, "verbs: Datagrams.DescribedByTheExtendedInterface"),
    OPERATION(XRC_SEND, RDMA_WRITE, "verbs: XrcByBuilder.MakesEveryRequest"),
    OPERATION(XRC_SEND, RDMA_WRITE_WITH_IMM, "verbs: XrcByBuilder.MakesEveryRequest"),
    OPERATION(XRC_SEND, SEND, "verbs: XrcByBuilder.MakesEveryRequest"),
    OPERATION(XRC_SEND, SEND_WITH_IMM, "verbs: XrcByBuilder.MakesEveryRequest"),
    OPERATION(XRC_SEND, RDMA_READ, "verbs: XrcByBuilder.MakesEveryRequest"),
    OPERATION(XRC_SEND, ATOMIC_CMP_AND_SWP, "verbs: XrcByBuilder.MakesEveryRequest"),
    OPERATION(XRC_SEND, ATOMIC_FETCH_AND_ADD, "verbs: XrcByBuilder.MakesEveryRequest"),
    OPERATION(XRC_SEND, LOCAL_INV, "verbs: XrcByBuilder.WindowsAreBoundAndEndedWithoutNamingAQueue"),
    OPERATION(XRC_SEND, BIND_MW, "verbs: XrcByBuilder.WindowsAreBoundAndEndedWithoutNamingAQueue"),
    OPERATION(XRC_SEND, SEND_WITH_INV, "verbs: XrcByBuilder.AKeyThatMayNotBeInvalidatedIsRefused"),
    COMPLETION(BYTE_LEN, "verbs: Extended.OnePollMayTakeManyCompletions"),
    COMPLETION(IMM, "verbs: Extended.OnePollMayTakeManyCompletions"),
    COMPLETION(QP_NUM, "verbs: Extended.OnePollMayTakeManyCompletions"),
    COMPLETION(SRC_QP, "verbs: Datagrams.DescribedByTheExtendedInterface"),
    COMPLETION(SLID, "verbs: Datagrams.DescribedByTheExtendedInterface"),
    COMPLETION(SL, "verbs: Datagrams.DescribedByTheExtendedInterface"),
    COMPLETION(DLID_PATH_BITS, "verbs: Datagrams.DescribedByTheExtendedInterface"),
    COMPLETION(CVLAN, "verbs addresses: Vlan.ADatagramTellsItsTagAndPriority"),
    COMPLETION(COMPLETION_TIMESTAMP, "verbs: Extended.CompletionsSayWhenTheyHappened"),
    COMPLETION(COMPLETION_TIMESTAMP_WALLCLOCK, "verbs: Extended.CompletionsSayWhenTheyHappened"),
    function("urocedv_get_dma_mr", "dv: Dma"),
    function("urocedv_reg_phys_mr", "dv: Physical"),
    function("urocedv_alloc_fmr", "dv: FmrFace"),
    function("urocedv_create_fmr_pool", "dv: FmrPoolFace"),
    function("urocedv_alloc_mr", "dv: FastRegion"),
    function("urocedv_wr_reg_mr", "dv: FastRegion.RegisterUseInvalidate"),
    function("urocedv_wr_rdma_read_inv", "dv: FastRegion.ReadWithInvalidate"),
    function("urocedv_alloc_mw", "dv: Window"),
    function("urocedv_create_qp", "dv: ReservedLKey"),
    function("urocedv_alloc_memory", "dv: Memory"),
    function("urocedv_dma_map_sg", "dv: Dma.ListsAreMappedAsAWholeOrNotAtAll"),
    function("urocedv_wr_flush", "dv: Flush"),
    function("ibv_attach_mcast", "verbs: Datagrams.AGroupsMessageReachesAllItsMembersOnBothDevices"),
    function("ibv_create_srq", "verbs: SharedReceiveQueue"),
    function("ibv_resize_cq", "verbs: Transfer.AQueueIsResizedWithCompletionsInIt"),
    function("ibv_rereg_mr", "verbs: Reregistration"),
    function("ibv_create_comp_channel", "verbs: Events"),
    function("ibv_get_async_event", "verbs: QpEvents"),
    behaviour("end-to-end credits", "qp: Credits"),
    behaviour("retransmission", "sim"),
    behaviour("copying by DMA devices", "engine dmadev"),
    behaviour("memory that its owner takes away", "verbs: MemoryGone"),
    behaviour("several pollers", "verbs over two pollers"),
    behaviour("dedicated pollers", "verbs over dedicated pollers"),
    behaviour("fork", "verbs: Fork"),
    behaviour("parent domains", "verbs: ParentDomain"),
    behaviour("thread domains", "engine: ThreadDomains"),
    behaviour("events of links", "programs asyncwatch: AsyncWatch.test_a_link_goes_down_and_up_and_away"),
    behaviour("null memory regions", "verbs: NullRegion"),
    behaviour("UC programs", "programs pingpong: Pingpong.test_unreliable_connection"),
};
// clang-format on

/// An unsigned number of 1, 2, 4 or 8 bytes.
uint64_t number_at(const void* structure, const Capability& field) {
  uint64_t number = 0;
  std::memcpy(&number, static_cast<const char*>(structure) + field.offset, field.bytes);
  return number;
}

std::string number_text(uint64_t number) {
  return number > UINT32_MAX ? fmt::format("{:#x}", number) : std::to_string(number);
}

bool has_function(const char* name) {
  const std::string symbol = std::string("uroce_") + name;
  return dlvsym(RTLD_DEFAULT, symbol.c_str(), "UROCE_PRIVATE_" UROCE_VERSION) != nullptr;
}

/// The verbs are uroce's, and not those of another library that the program has loaded.
bool ours() { return has_function("port_facts"); }

/// Queue pairs to be asked for, one after the other.
class Questions {
 public:
  explicit Questions(ibv_context& context)
      : context_(context),
        domain_(ibv_alloc_pd(&context)),
        completions_(ibv_create_cq(&context, 1, nullptr, nullptr, 0)) {
    if (!domain_ || !completions_) throw client::failed("cannot make a completion queue", errno);
    ibv_xrcd_init_attr wanted{};
    wanted.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    wanted.fd = -1;
    wanted.oflags = O_CREAT;
    xrc_domain_.reset(ibv_open_xrcd(&context, &wanted));
  }

  /// Without `operations` a plain one.
  [[nodiscard]] bool has(ibv_qp_type type, uint64_t operations) {
    ibv_qp_init_attr_ex wanted{};
    wanted.qp_type = type;
    if (type == IBV_QPT_XRC_RECV) {
      if (!xrc_domain_) return false;
      wanted.xrcd = xrc_domain_.get();
      wanted.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    } else {
      wanted.send_cq = completions_.get();
      wanted.recv_cq = type == IBV_QPT_XRC_SEND ? nullptr : completions_.get();
      const uint32_t receives = type == IBV_QPT_XRC_SEND ? 0 : 1;
      wanted.cap = {.max_send_wr = 1,
                    .max_recv_wr = receives,
                    .max_send_sge = 1,
                    .max_recv_sge = receives,
                    .max_inline_data = 0};
      wanted.pd = domain_.get();
      wanted.comp_mask = IBV_QP_INIT_ATTR_PD;
    }
    wanted.send_ops_flags = operations;
    if (operations != 0) wanted.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    return client::QueuePair(ibv_create_qp_ex(&context_, &wanted)) != nullptr;
  }

  [[nodiscard]] bool tells(uint64_t flag) {
    ibv_cq_init_attr_ex wanted{};
    wanted.cqe = 1;
    wanted.wc_flags = flag;
    ibv_cq_ex* const queue = ibv_create_cq_ex(&context_, &wanted);
    return client::CompletionQueue(queue == nullptr ? nullptr : ibv_cq_ex_to_cq(queue)) != nullptr;
  }

 private:
  ibv_context& context_;
  client::ProtectionDomain domain_;
  client::CompletionQueue completions_;
  std::unique_ptr<ibv_xrcd, client::Destroyer<ibv_close_xrcd>> xrc_domain_;
};

}  // namespace

std::span<const Capability> capabilities() { return kCapabilities; }

Advertised ask(ibv_context& context) {
  constexpr uint32_t kFlags = 16;  // more than the verbs have of operations, and of what a completion tells
  constexpr ibv_qp_type kTypes[] = {IBV_QPT_RC,         IBV_QPT_UC,       IBV_QPT_UD,
                                    IBV_QPT_RAW_PACKET, IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV};
  Advertised advertised;
  if (const int error = ibv_query_device_ex(&context, nullptr, &advertised.device))
    throw client::failed("ibv_query_device_ex", error);
  if (const int error = ibv_query_port(&context, 1, &advertised.port))
    throw client::failed("ibv_query_port", error);
  Questions questions(context);
  for (const ibv_qp_type type : kTypes) {
    if (!questions.has(type, 0)) continue;
    advertised.services |= 1u << type;
    for (uint64_t flag = 1; flag < uint64_t{1} << kFlags; flag <<= 1)
      if (type != IBV_QPT_XRC_RECV && questions.has(type, flag)) advertised.operations.at(type) |= flag;
  }
  for (uint64_t flag = 1; flag < uint64_t{1} << kFlags; flag <<= 1)
    if (questions.tells(flag)) advertised.completions |= flag;
  return advertised;
}

std::string value_of(const Capability& capability, const Advertised& advertised) {
  uint64_t value = 0;
  switch (capability.place) {
    case Place::kDevice:
      value = number_at(&advertised.device, capability) & capability.mask;
      break;
    case Place::kPort:
      value = number_at(&advertised.port, capability) & capability.mask;
      break;
    case Place::kService:
      value = capability.type < 32 && (advertised.services >> capability.type & 1) != 0;
      break;
    case Place::kOperation:
      value = advertised.operations.at(capability.type) & capability.mask;
      break;
    case Place::kCompletion:
      value = advertised.completions & capability.mask;
      break;
    case Place::kFunction:
      value = has_function(capability.name);
      break;
    case Place::kBehaviour:
      value = ours();
      break;
  }
  if (capability.absent) return value == 0 ? "none" : "";
  if (value == 0) return "";
  const bool number = capability.bytes != 0 && capability.mask == ~uint64_t{0};
  return number ? number_text(value) : "yes";
}

}  // namespace uroce::info
