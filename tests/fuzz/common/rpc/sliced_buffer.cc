#include "tests/fuzz/common/rpc/sliced_buffer.h"

#include <vector>

#include "common/base/check.h"
#include "grpcpp/support/slice.h"

namespace longhaul::fuzz {

grpc::ByteBuffer SlicedBuffer(absl::string_view bytes, size_t slice_bytes) {
  std::vector<grpc::Slice> slices;
  do {
    const absl::string_view slice =
        bytes.substr(0, slice_bytes == 0 ? absl::string_view::npos : slice_bytes);
    slices.emplace_back(slice.data(), slice.size());
    bytes.remove_prefix(slice.size());
  } while (!bytes.empty());
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::string FlatBytes(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  LH_CHECK(buffer.Dump(&slices).ok(), "a message of ours has slices");
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

}  // namespace longhaul::fuzz
