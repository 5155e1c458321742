// Converts errors of the CUDA runtime to absl::Status. Header-only, for CUDA modules, which link
// the runtime themselves.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cuda_runtime_api.h"

namespace longhaul {

// RESOURCE_EXHAUSTED: out of memory. FAILED_PRECONDITION: no device or driver. INTERNAL: any other
// error, as torch has for it; this process may be unable to use the device from then on. Clears the
// runtime's last error of this thread, since it is reported here: later checks, also torch's, must
// not see it.
inline absl::Status CudaStatus(cudaError_t error, absl::string_view what) {
  if (error == cudaSuccess) return absl::OkStatus();
  (void)cudaGetLastError();
  const std::string message = absl::StrCat(what, ": ", cudaGetErrorString(error));
  switch (error) {
    case cudaErrorMemoryAllocation:
      return absl::ResourceExhaustedError(message);
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
      return absl::FailedPreconditionError(message);
    default:
      return absl::InternalError(message);
  }
}

// cudaEventQuery. An event that is not reached leaves no last error behind.
inline cudaError_t QueryCudaEvent(cudaEvent_t event) {
  const cudaError_t error = cudaEventQuery(event);
  if (error == cudaErrorNotReady) (void)cudaGetLastError();
  return error;
}

// FAILED_PRECONDITION: this process does not see a CUDA device with that number.
inline absl::Status CheckCudaDevice(int device) {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    (void)cudaGetLastError();
    return absl::FailedPreconditionError(
        absl::StrCat("no CUDA device: ", cudaGetErrorString(error)));
  }
  if (device >= 0 && device < count) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("no CUDA device ", device, ": there are ", count));
}

}  // namespace longhaul
