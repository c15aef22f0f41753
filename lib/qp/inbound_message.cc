#include "qp/inbound_message.h"

namespace uroce::qp {

using queue::Completion;
using queue::CompletionOpcode;
using wire::Family;

Completion completion_of(const wire::Packet& packet, uint32_t bytes) {
  Completion completion;
  completion.opcode =
      packet.row->family == Family::kWrite ? CompletionOpcode::kReceiveWriteImm : CompletionOpcode::kReceive;
  completion.bytes = bytes;
  completion.has_immediate = packet.row->headers.has(wire::Header::kImmediate);
  completion.has_invalidated = packet.row->headers.has(wire::Header::kInvalidate);
  completion.immediate = completion.has_immediate     ? packet.headers.immediate
                         : completion.has_invalidated ? packet.headers.invalidate.value
                                                      : 0;
  completion.solicited = packet.headers.bth.solicited;
  return completion;
}

}  // namespace uroce::qp
