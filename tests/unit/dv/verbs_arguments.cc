#include "arguments.h"

/// Of libibverbs' private interface.
extern "C" int ibv_query_gid_type(ibv_context* context, uint8_t port, unsigned int index, int* type);

namespace uroce::verbs_test {

namespace {

const Row kVerbs[] = {
    {"ibv_get_device_name", EINVAL, [](Objects&) { return told(ibv_get_device_name(nullptr)); }},
    {"ibv_get_device_index", EINVAL, [](Objects&) { return told_minus(ibv_get_device_index(nullptr)); }},
    {"ibv_get_device_guid", EINVAL,
     [](Objects&) { return ibv_get_device_guid(nullptr) == 0 ? told_nothing() : 0; }},
    {"ibv_open_device", EINVAL, [](Objects&) { return told(ibv_open_device(nullptr)); }},
    {"ibv_close_device", EINVAL, [](Objects&) { return ibv_close_device(nullptr); }},
    {"ibv_get_async_event context", EINVAL,
     [](Objects& o) { return told_minus(ibv_get_async_event(nullptr, &o.event)); }},
    {"ibv_get_async_event event", EINVAL,
     [](Objects& o) { return told_minus(ibv_get_async_event(o.context, nullptr)); }},
    {"ibv_ack_async_event", EINVAL, [](Objects&) { return ibv_ack_async_event(nullptr), told_nothing(); }},
    {"ibv_ack_async_event object", EINVAL,
     [](Objects& o) {
       o.event.event_type = IBV_EVENT_SQ_DRAINED;
       return ibv_ack_async_event(&o.event), told_nothing();
     }},
    {"ibv_ack_async_event type", 0,
     [](Objects& o) { return spoil(o.event.event_type), ibv_ack_async_event(&o.event), told_nothing(); }},
    {"ibv_query_device context", EINVAL,
     [](Objects&) {
       ibv_device_attr attributes{};
       return ibv_query_device(nullptr, &attributes);
     }},
    {"ibv_query_device attributes", EINVAL, [](Objects& o) { return ibv_query_device(o.context, nullptr); }},
    {"ibv_query_port context", EINVAL,
     [](Objects&) {
       ibv_port_attr attributes{};
       return (ibv_query_port)(nullptr, 1, reinterpret_cast<_compat_ibv_port_attr*>(&attributes));
     }},
    {"ibv_query_port attributes", EINVAL, [](Objects& o) { return (ibv_query_port)(o.context, 1, nullptr); }},
    {"ibv_query_gid context", EINVAL,
     [](Objects& o) { return told_minus(ibv_query_gid(nullptr, 1, 0, &o.gid)); }},
    {"ibv_query_gid gid", EINVAL,
     [](Objects& o) { return told_minus(ibv_query_gid(o.context, 1, 0, nullptr)); }},
    {"_ibv_query_gid_ex context", EINVAL,
     [](Objects&) {
       ibv_gid_entry entry{};
       return _ibv_query_gid_ex(nullptr, 1, 0, &entry, 0, sizeof(entry));
     }},
    {"_ibv_query_gid_ex entry", EINVAL,
     [](Objects& o) { return _ibv_query_gid_ex(o.context, 1, 0, nullptr, 0, sizeof(ibv_gid_entry)); }},
    {"_ibv_query_gid_table context", EINVAL,
     [](Objects&) {
       ibv_gid_entry entry{};
       return told_minus(_ibv_query_gid_table(nullptr, &entry, 1, 0, sizeof(entry)));
     }},
    {"_ibv_query_gid_table entries", EINVAL,
     [](Objects& o) {
       return told_minus(_ibv_query_gid_table(o.context, nullptr, 1, 0, sizeof(ibv_gid_entry)));
     }},
    {"ibv_query_gid_type context", EINVAL,
     [](Objects&) {
       int type = 0;
       return told_minus(ibv_query_gid_type(nullptr, 1, 0, &type));
     }},
    {"ibv_query_gid_type type", EINVAL,
     [](Objects& o) { return told_minus(ibv_query_gid_type(o.context, 1, 0, nullptr)); }},
    {"ibv_query_pkey context", EINVAL,
     [](Objects&) {
       __be16 pkey = 0;
       return told_minus(ibv_query_pkey(nullptr, 1, 0, &pkey));
     }},
    {"ibv_query_pkey pkey", EINVAL,
     [](Objects& o) { return told_minus(ibv_query_pkey(o.context, 1, 0, nullptr)); }},
    {"ibv_get_pkey_index", EINVAL, [](Objects&) { return told_minus(ibv_get_pkey_index(nullptr, 1, 0)); }},
    {"ibv_alloc_pd", EINVAL, [](Objects&) { return told(ibv_alloc_pd(nullptr)); }},
    {"ibv_dealloc_pd", EINVAL, [](Objects&) { return ibv_dealloc_pd(nullptr); }},
    {"ibv_reg_mr", EINVAL, [](Objects& o) { return told((ibv_reg_mr)(nullptr, &o, 1, 0)); }},
    {"ibv_reg_mr_iova", EINVAL, [](Objects& o) { return told((ibv_reg_mr_iova)(nullptr, &o, 1, 0, 0)); }},
    {"ibv_reg_mr_iova2", EINVAL, [](Objects& o) { return told(ibv_reg_mr_iova2(nullptr, &o, 1, 0, 0)); }},
    {"ibv_rereg_mr", EINVAL,
     [](Objects& o) {
       const int result = ibv_rereg_mr(nullptr, IBV_REREG_MR_CHANGE_PD, o.end.pd, nullptr, 0, 0);
       return result == IBV_REREG_MR_ERR_INPUT ? told_nothing() : 0;
     }},
    {"ibv_rereg_mr domain", EINVAL,
     [](Objects& o) {
       return ibv_rereg_mr(o.end.mr, IBV_REREG_MR_CHANGE_PD, nullptr, nullptr, 0, 0) != 0 ? errno : 0;
     }},
    {"ibv_dereg_mr", EINVAL, [](Objects&) { return ibv_dereg_mr(nullptr); }},
    {"ibv_create_comp_channel", EINVAL, [](Objects&) { return told(ibv_create_comp_channel(nullptr)); }},
    {"ibv_destroy_comp_channel", EINVAL, [](Objects&) { return ibv_destroy_comp_channel(nullptr); }},
    {"ibv_create_cq", EINVAL, [](Objects&) { return told(ibv_create_cq(nullptr, 1, nullptr, nullptr, 0)); }},
    {"ibv_resize_cq", EINVAL, [](Objects&) { return ibv_resize_cq(nullptr, 1); }},
    {"ibv_destroy_cq", EINVAL, [](Objects&) { return ibv_destroy_cq(nullptr); }},
    {"ibv_get_cq_event channel", EINVAL,
     [](Objects& o) {
       void* of = nullptr;
       return told_minus(ibv_get_cq_event(nullptr, &o.end.cq, &of));
     }},
    {"ibv_get_cq_event queue", EINVAL,
     [](Objects& o) {
       void* of = nullptr;
       return told_minus(ibv_get_cq_event(o.end.channel, nullptr, &of));
     }},
    {"ibv_get_cq_event context", EINVAL,
     [](Objects& o) {
       ibv_cq* cq = nullptr;
       return told_minus(ibv_get_cq_event(o.end.channel, &cq, nullptr));
     }},
    {"ibv_ack_cq_events", EINVAL, [](Objects&) { return ibv_ack_cq_events(nullptr, 1), told_nothing(); }},
    {"ibv_create_srq domain", EINVAL,
     [](Objects& o) { return told(ibv_create_srq(nullptr, &o.srq_initial)); }},
    {"ibv_create_srq attributes", EINVAL, [](Objects& o) { return told(ibv_create_srq(o.end.pd, nullptr)); }},
    {"ibv_modify_srq queue", EINVAL,
     [](Objects& o) { return ibv_modify_srq(nullptr, &o.srq_attributes, IBV_SRQ_LIMIT); }},
    {"ibv_modify_srq attributes", EINVAL,
     [](Objects& o) { return ibv_modify_srq(o.srq, nullptr, IBV_SRQ_LIMIT); }},
    {"ibv_query_srq queue", EINVAL, [](Objects& o) { return ibv_query_srq(nullptr, &o.srq_attributes); }},
    {"ibv_query_srq attributes", EINVAL, [](Objects& o) { return ibv_query_srq(o.srq, nullptr); }},
    {"ibv_destroy_srq", EINVAL, [](Objects&) { return ibv_destroy_srq(nullptr); }},
    {"ibv_create_qp domain", EINVAL, [](Objects& o) { return told(ibv_create_qp(nullptr, &o.initial)); }},
    {"ibv_create_qp attributes", EINVAL, [](Objects& o) { return told(ibv_create_qp(o.end.pd, nullptr)); }},
    {"ibv_create_qp type", EINVAL,
     [](Objects& o) { return spoil(o.initial.qp_type), told(ibv_create_qp(o.end.pd, &o.initial)); }},
    {"ibv_modify_qp queue pair", EINVAL, [](Objects& o) { return ibv_modify_qp(nullptr, &o.attributes, 0); }},
    {"ibv_modify_qp attributes", EINVAL, [](Objects& o) { return ibv_modify_qp(o.end.qp, nullptr, 0); }},
    {"ibv_modify_qp state", EINVAL,
     [](Objects& o) {
       spoil(o.attributes.qp_state);
       return ibv_modify_qp(o.end.qp, &o.attributes, IBV_QP_STATE);
     }},
    {"ibv_modify_qp current state", EINVAL,
     [](Objects& o) {
       spoil(o.attributes.cur_qp_state);
       return ibv_modify_qp(o.end.qp, &o.attributes, IBV_QP_CUR_STATE);
     }},
    {"ibv_modify_qp MTU", EINVAL,
     [](Objects& o) {
       spoil(o.attributes.path_mtu);
       return ibv_modify_qp(o.end.qp, &o.attributes, IBV_QP_PATH_MTU);
     }},
    {"ibv_query_qp queue pair", EINVAL,
     [](Objects& o) { return ibv_query_qp(nullptr, &o.attributes, 0, &o.initial); }},
    {"ibv_query_qp attributes", EINVAL,
     [](Objects& o) { return ibv_query_qp(o.end.qp, nullptr, 0, &o.initial); }},
    {"ibv_query_qp initial attributes", EINVAL,
     [](Objects& o) { return ibv_query_qp(o.end.qp, &o.attributes, 0, nullptr); }},
    {"ibv_destroy_qp", EINVAL, [](Objects&) { return ibv_destroy_qp(nullptr); }},
    {"ibv_qp_to_qp_ex", EINVAL, [](Objects&) { return told(ibv_qp_to_qp_ex(nullptr)); }},
    {"ibv_create_ah domain", EINVAL, [](Objects& o) { return told(ibv_create_ah(nullptr, &o.way)); }},
    {"ibv_create_ah attributes", EINVAL, [](Objects& o) { return told(ibv_create_ah(o.end.pd, nullptr)); }},
    {"ibv_init_ah_from_wc context", EINVAL,
     [](Objects& o) { return told_minus(ibv_init_ah_from_wc(nullptr, 1, &o.completion, &o.grh, &o.way)); }},
    {"ibv_init_ah_from_wc completion", EINVAL,
     [](Objects& o) { return told_minus(ibv_init_ah_from_wc(o.context, 1, nullptr, &o.grh, &o.way)); }},
    {"ibv_init_ah_from_wc header", EINVAL,
     [](Objects& o) {
       return told_minus(ibv_init_ah_from_wc(o.context, 1, &o.completion, nullptr, &o.way));
     }},
    {"ibv_init_ah_from_wc attributes", EINVAL,
     [](Objects& o) {
       return told_minus(ibv_init_ah_from_wc(o.context, 1, &o.completion, &o.grh, nullptr));
     }},
    {"ibv_create_ah_from_wc domain", EINVAL,
     [](Objects& o) { return told(ibv_create_ah_from_wc(nullptr, &o.completion, &o.grh, 1)); }},
    {"ibv_create_ah_from_wc completion", EINVAL,
     [](Objects& o) { return told(ibv_create_ah_from_wc(o.end.pd, nullptr, &o.grh, 1)); }},
    {"ibv_create_ah_from_wc header", EINVAL,
     [](Objects& o) { return told(ibv_create_ah_from_wc(o.end.pd, &o.completion, nullptr, 1)); }},
    {"ibv_destroy_ah", EINVAL, [](Objects&) { return ibv_destroy_ah(nullptr); }},
    {"ibv_attach_mcast queue pair", EINVAL, [](Objects& o) { return ibv_attach_mcast(nullptr, &o.gid, 0); }},
    {"ibv_attach_mcast group", EINVAL, [](Objects& o) { return ibv_attach_mcast(o.end.qp, nullptr, 0); }},
    {"ibv_detach_mcast queue pair", EINVAL, [](Objects& o) { return ibv_detach_mcast(nullptr, &o.gid, 0); }},
    {"ibv_detach_mcast group", EINVAL, [](Objects& o) { return ibv_detach_mcast(o.end.qp, nullptr, 0); }},
    {"ibv_node_type_str", 0, [](Objects&) { return told(ibv_node_type_str(none_of<ibv_node_type>())); }},
    {"ibv_port_state_str", 0, [](Objects&) { return told(ibv_port_state_str(none_of<ibv_port_state>())); }},
    {"ibv_event_type_str", 0, [](Objects&) { return told(ibv_event_type_str(none_of<ibv_event_type>())); }},
    {"ibv_wc_status_str", 0, [](Objects&) { return told(ibv_wc_status_str(none_of<ibv_wc_status>())); }},
    {"ibv_rate_to_mult", 0, [](Objects&) { return ibv_rate_to_mult(none_of<ibv_rate>()) + 1; }},
    {"ibv_rate_to_mbps", 0, [](Objects&) { return ibv_rate_to_mbps(none_of<ibv_rate>()) + 1; }},

    // By way of the context, where verbs.h itself has looked at the object. (What verbs.h would read as a
    // value of its enumeration goes to the context's function at once.)
    {"ibv_alloc_mw type", EINVAL,
     [](Objects& o) { return told(o.context->ops.alloc_mw(o.end.pd, none_of<ibv_mw_type>())); }},
    {"ibv_bind_mw queue pair and binding", EINVAL,
     [](Objects& o) {
       ibv_mw* const window = ibv_alloc_mw(o.end.pd, IBV_MW_TYPE_1);
       ibv_mw_bind bind{};
       int error = o.context->ops.bind_mw(nullptr, window, &bind);
       if (error == EINVAL) error = o.context->ops.bind_mw(o.end.qp, window, nullptr);
       EXPECT_EQ(ibv_dealloc_mw(window), 0);
       return error;
     }},
    {"ibv_wr_bind_mw binding", EINVAL,
     [](Objects& o) {
       ibv_qp_ex* const qp = ibv_qp_to_qp_ex(o.end.qp);
       ibv_wr_start(qp);
       qp->wr_bind_mw(qp, nullptr, 0, nullptr);
       return errno = ibv_wr_complete(qp);
     }},
    {"ibv_alloc_td", EINVAL, [](Objects& o) { return told(ibv_alloc_td(o.context, nullptr)); }},
    {"ibv_alloc_parent_domain", EINVAL,
     [](Objects& o) { return told(ibv_alloc_parent_domain(o.context, nullptr)); }},
    {"ibv_query_device_ex", EINVAL,
     [](Objects& o) { return ibv_query_device_ex(o.context, nullptr, o.no_attributes); }},
    {"ibv_query_rt_values_ex", EINVAL, [](Objects& o) { return ibv_query_rt_values_ex(o.context, nullptr); }},
    {"ibv_modify_cq", EINVAL, [](Objects& o) { return ibv_modify_cq(o.end.cq, nullptr); }},
    {"ibv_open_xrcd", EINVAL, [](Objects& o) { return told(ibv_open_xrcd(o.context, nullptr)); }},
    {"ibv_open_qp", EINVAL, [](Objects& o) { return told(ibv_open_qp(o.context, nullptr)); }},
    {"ibv_get_srq_num", EINVAL, [](Objects& o) { return ibv_get_srq_num(o.srq, nullptr); }},
    {"ibv_advise_mr list", EINVAL,
     [](Objects& o) { return ibv_advise_mr(o.end.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, nullptr, 1); }},
    {"ibv_advise_mr advice", ENOTSUP,
     [](Objects& o) {
       ibv_sge all = o.end.all();
       return verbs_get_ctx(o.context)->advise_mr(o.end.pd, none_of<ibv_advise_mr_advice>(), 0, &all, 1);
     }},
    {"ibv_create_srq_ex type", EOPNOTSUPP,
     [](Objects& o) {
       ibv_srq_init_attr_ex wanted{};
       wanted.attr = o.srq_initial.attr;
       wanted.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
       wanted.pd = o.end.pd;
       spoil(wanted.srq_type);
       return told(verbs_get_ctx(o.context)->create_srq_ex(o.context, &wanted));
     }},
    {"ibv_create_qp_ex type", EINVAL,
     [](Objects& o) {
       ibv_qp_init_attr_ex wanted{};
       wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
       wanted.pd = o.end.pd;
       spoil(wanted.qp_type);
       return told(ibv_create_qp_ex(o.context, &wanted));
     }},
};

}  // namespace

std::span<const Row> verbs_arguments() { return kVerbs; }

}  // namespace uroce::verbs_test
