// The CUDA parts of a program are modules that are loaded at run time, so that it runs, and stays
// small, where no device is. Thread-safe.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace longhaul {

// The number of devices that the CUDA driver of this machine sees. FAILED_PRECONDITION: there is no
// driver or no device; the message begins with "no CUDA device". Loads the driver's library and
// nothing else.
absl::StatusOr<int> CudaDeviceCount();

// The function `symbol` of the module lib<name>.so, which is loaded once and stays: CUDA keeps
// state of the process in it. It is looked for in `folder`, or if that is empty in the program's
// own folder and in ../lib beside it. FAILED_PRECONDITION: there is no device, or no such module
// (this build has LONGHAUL_CUDA off), or no such function in it.
absl::StatusOr<void*> LoadCudaFunction(const std::string& name, const char* symbol,
                                       const std::string& folder);

}  // namespace longhaul
