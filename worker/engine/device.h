// Opens the device that a rank computes on. A CPU rank never loads the CUDA half of libtorch (230
// MB resident); it is loaded here, when a device is asked for and present. Call it before the first
// tensor is differentiated: torch looks for devices only once.
#pragma once

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "c10/core/Device.h"

namespace longhaul {

// FAILED_PRECONDITION "no CUDA device": there is no driver or no device, or the CUDA half of
// libtorch cannot be loaded (the message says which).
absl::StatusOr<at::Device> OpenCudaDevice(int index);

// A copy of a tensor in host memory, enqueued on the current stream. Does not wait for what is enqueued
// there. `host` may go at once. Throws as torch does.
at::Tensor CopyToDevice(const at::Tensor& host, at::Device device);

}  // namespace longhaul
