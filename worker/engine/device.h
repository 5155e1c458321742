// Opens the device that a rank computes on. It loads the CUDA half of libtorch (230 MB resident),
// which a rank on a CPU never needs. Call it before the first tensor is differentiated: torch looks
// for devices only once. Called from one thread.
#pragma once

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "c10/core/Device.h"

namespace longhaul {

// FAILED_PRECONDITION "no CUDA device": there is no driver or no device, or the CUDA half of
// libtorch cannot be loaded (the message says which).
absl::StatusOr<at::Device> OpenCudaDevice(int index);

// Returns a copy on `device` of a tensor that lies in host memory. The copy is enqueued on the
// current stream; the call does not wait for the device. `host` may be freed when it returns.
// Throws as torch does.
at::Tensor CopyToDevice(const at::Tensor& host, at::Device device);

}  // namespace longhaul
