#pragma once

#include <cstdint>

namespace uroce::nvmf {

/// What a transport can do, as Identify and Connect tell hosts. The same for all queues of a controller.
struct TransportCapabilities {
  uint8_t type = 1;                     // TRTYPE: RDMA
  uint32_t data_bytes_max = 128 << 10;  // of one command: 4096 times a power of two (MDTS)
  uint32_t in_capsule_bytes = 0;        // of data in a command capsule of an I/O queue (IOCCSZ)
  uint32_t io_entries_max = 128;        // of an I/O queue (MQES, MAXCMD); 2 to 65536
  uint8_t data_descriptors_max = 1;     // MSDBD
  uint32_t sgls = 0;                    // the field SGLS of Identify Controller
};

}  // namespace uroce::nvmf
