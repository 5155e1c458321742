// The memory of a contiguous tensor.
#pragma once

#include <cstddef>

#include "ATen/core/Tensor.h"
#include "absl/types/span.h"

namespace longhaul {

// As elements of T, whatever the tensor calls them; its bytes are a multiple of T's. Device memory if
// the tensor is there. Valid as long as the tensor's storage.
template <typename T>
absl::Span<T> SpanOf(const at::Tensor& tensor) {
  return {static_cast<T*>(tensor.data_ptr()), tensor.nbytes() / sizeof(T)};
}

}  // namespace longhaul
