// The memory of a contiguous tensor.
#pragma once

#include <cstddef>

#include "ATen/core/Tensor.h"
#include "absl/types/span.h"

namespace longhaul {

// The memory as elements of T, whatever the tensor's type. Its size in bytes must be a multiple of
// T's. It is device memory if the tensor is on a device. Valid as long as the tensor's storage.
template <typename T>
absl::Span<T> SpanOf(const at::Tensor& tensor) {
  return {static_cast<T*>(tensor.data_ptr()), tensor.nbytes() / sizeof(T)};
}

}  // namespace longhaul
