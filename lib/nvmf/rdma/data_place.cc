#include "nvmf/rdma/data_place.h"

namespace uroce::nvmf {
namespace {

using Found = std::variant<RdmaDataPlace, CommandStatus>;

Found in_host_memory(const SglDescriptor& sgl, uint32_t data_bytes) {
  const bool invalidate = sgl.sub_type() == SglDescriptor::SubType::kInvalidateKey;
  if (!invalidate && sgl.sub_type() != SglDescriptor::SubType::kAddress)
    return refused(StatusCode::kSglDescriptorTypeInvalid);
  // It may be longer than the data (bit 18 of the field SGLS).
  if (sgl.keyed_length() < data_bytes) return refused(StatusCode::kDataSglLengthInvalid);
  return RdmaDataPlace{RdmaDataPlace::Kind::kHostMemory, invalidate, sgl.key(), sgl.address};
}

Found in_capsule(const SglDescriptor& sgl, const Request& request, uint32_t capsule_bytes) {
  if (request.direction != Direction::kFromHost || sgl.sub_type() != SglDescriptor::SubType::kOffset)
    return refused(StatusCode::kSglDescriptorTypeInvalid);
  if (sgl.length() < request.data_bytes) return refused(StatusCode::kDataSglLengthInvalid);
  if (sgl.address > capsule_bytes) return refused(StatusCode::kSglOffsetInvalid);
  if (sgl.length() > capsule_bytes - sgl.address) return refused(StatusCode::kDataSglLengthInvalid);
  return RdmaDataPlace{RdmaDataPlace::Kind::kCapsule, false, 0, sgl.address};
}

}  // namespace

Found find_data(const Request& request, uint32_t capsule_bytes) {
  const SglDescriptor& sgl = request.command.sgl;
  switch (sgl.type()) {
    case SglDescriptor::Type::kKeyedDataBlock:
      return in_host_memory(sgl, request.data_bytes);
    case SglDescriptor::Type::kDataBlock:
      return in_capsule(sgl, request, capsule_bytes);
    default:
      // Lists of descriptors among them: MSDBD is 1.
      return refused(StatusCode::kSglDescriptorTypeInvalid);
  }
}

}  // namespace uroce::nvmf
