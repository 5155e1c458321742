// The CUDA parts of a program are modules that are loaded at run time. So the program runs, and
// stays small, on machines without a device. Thread-safe.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace longhaul {

// The number of devices that this machine's CUDA driver sees. FAILED_PRECONDITION: there is no
// driver or no device; the message begins with "no CUDA device". Loads only the driver's library.
absl::StatusOr<int> CudaDeviceCount();

// For example "NVIDIA H100 80GB HBM3", of device `index` of this process. Errors: those of
// CudaDeviceCount, also if there is no such device.
absl::StatusOr<std::string> CudaDeviceName(int index);

// The function `symbol` of the module lib<name>.so. The module is loaded once and stays, since CUDA
// keeps state of the process in it. It is searched in `folder`, or, if that is empty, in the
// program's own folder and in ../lib beside it. FAILED_PRECONDITION: there is no device, no such
// module (this build has LONGHAUL_CUDA off), or no such function in it.
absl::StatusOr<void*> LoadCudaFunction(const std::string& name, const char* symbol,
                                       const std::string& folder);

}  // namespace longhaul
