#pragma once

namespace uroce::drivers {

/// Keeps libbpf and libxdp, which net_af_xdp uses, from writing to standard error on their own. Nothing
/// happens when they are not in the process. To be called before a device of net_af_xdp is probed.
void silence_bpf();

}  // namespace uroce::drivers
