// Tensors in the memory of a Movement.
#pragma once

#include "ATen/core/Tensor.h"
#include "worker/engine/tensor_span.h"
#include "worker/movement/movement.h"

namespace longhaul {

// What of the weights is in host memory. The default: nothing, all is on the device.
struct HostWeights {
  // Outlives the tensors. Null: nothing is in host memory.
  Movement* movement = nullptr;
  // Masters are in host memory.
  bool masters = false;
  // Kept weights are in host memory, too; gathers copy them to the device. Requires `masters`.
  bool weights = false;
};

// A tensor of zeros. Throws c10::OutOfMemoryError, which names `what`.
at::Tensor ZerosOn(Movement& movement, MemorySide side, int64_t elements, at::ScalarType type,
                   at::Device device, absl::string_view what);

// A buffer that uses the tensor's memory. The tensor must outlive it.
std::unique_ptr<VersionedBuffer> BufferOn(const at::Tensor& tensor, MemorySide side,
                                          std::string name);

}  // namespace longhaul
