// Tensors in the places of a Movement.
#pragma once

#include "ATen/core/Tensor.h"
#include "worker/engine/tensor_span.h"
#include "worker/movement/movement.h"

namespace longhaul {

// Where masters and kept weights are kept. The default: on the device.
struct WeightPlacement {
  // Outlives the tensors. Null: nothing is in host memory.
  Movement* movement = nullptr;
  // Masters are in host memory.
  bool masters = false;
  // Kept weights are in host memory, too; gathers copy them to the device. Requires `masters`.
  bool weights = false;
};

// A tensor of zeros. Throws c10::OutOfMemoryError, which names `what`.
at::Tensor PlacedZeros(Movement& movement, Place place, int64_t elements, at::ScalarType type,
                       at::Device device, absl::string_view what);

// A buffer that uses the tensor's memory. The tensor must outlive it.
std::unique_ptr<PlacedBuffer> BufferOn(const at::Tensor& tensor, Place place, std::string name);

}  // namespace longhaul
