// Tensors in the places of a Movement, and what of the weights lies where.
#pragma once

#include "ATen/core/Tensor.h"
#include "worker/engine/tensor_span.h"
#include "worker/movement/movement.h"

namespace longhaul {

// Where masters and kept weights rest. As it is made: on the device.
struct WeightPlacement {
  Movement* movement = nullptr;  // Outlives what is placed. Null: nothing is in host memory.
  bool masters = false;          // In host memory.
  bool weights = false;  // In host memory too; gathers bring them to the device. With masters.
};

// Zeros. Throws c10::OutOfMemoryError, which says what there is no memory for.
at::Tensor PlacedZeros(Movement& movement, Place place, int64_t elements, at::ScalarType type,
                       at::Device device, absl::string_view what);

// A buffer on the tensor's memory, which must stay.
std::unique_ptr<PlacedBuffer> BufferOn(const at::Tensor& tensor, Place place, std::string name);

}  // namespace longhaul
