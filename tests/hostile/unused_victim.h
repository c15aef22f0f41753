#pragma once

#include <cstddef>
#include <string>

namespace uroce::engine {

/// A device with so many queue pairs that are connected and not in use: of RC, UC and UD in turn, each with
/// one receive. Their peer is kStranger at the far end; UD has the Q_Key 0x11111111. First it says their
/// numbers, "queue pairs N N N ...". Frames come then as to run(); at one without a byte it says what there
/// is once all before it are received: "used N received N answers N counters ...", queue pairs that are in
/// use, messages, and packets that came back by now. Throws what did not hold.
void run_unused(const std::string& port, const std::string& far_port, size_t count);

}  // namespace uroce::engine
