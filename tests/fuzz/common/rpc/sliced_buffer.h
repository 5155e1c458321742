// A received message as gRPC hands it over: in slices of any sizes.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "grpcpp/support/byte_buffer.h"

namespace longhaul::fuzz {

// Copies `bytes` into slices of `slice_bytes` (0: one slice).
grpc::ByteBuffer SlicedBuffer(absl::string_view bytes, size_t slice_bytes);

std::string FlatBytes(const grpc::ByteBuffer& buffer);

}  // namespace longhaul::fuzz
