// Opens the device that a rank computes on. A CPU rank never loads the CUDA half of libtorch (230
// MB resident); it is loaded here, when a device is asked for and present. Call it before the first
// tensor is differentiated: torch looks for devices only once.
#pragma once

#include "absl/status/statusor.h"
#include "c10/core/Device.h"

namespace longhaul {

// FAILED_PRECONDITION "no CUDA device": there is no driver or no device, or the CUDA half of
// libtorch cannot be loaded (the message says which).
absl::StatusOr<at::Device> OpenCudaDevice(int index);

}  // namespace longhaul
