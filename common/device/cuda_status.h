// Errors of the CUDA runtime as absl::Status. Header-only: for CUDA modules, which link the runtime
// themselves.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cuda_runtime_api.h"

namespace longhaul {

// RESOURCE_EXHAUSTED: out of memory. FAILED_PRECONDITION: no device or driver. UNAVAILABLE: any
// other error; the device may be unusable for this process from then on.
inline absl::Status CudaStatus(cudaError_t error, absl::string_view what) {
  if (error == cudaSuccess) return absl::OkStatus();
  const std::string message = absl::StrCat(what, ": ", cudaGetErrorString(error));
  switch (error) {
    case cudaErrorMemoryAllocation:
      return absl::ResourceExhaustedError(message);
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
      return absl::FailedPreconditionError(message);
    default:
      return absl::UnavailableError(message);
  }
}

}  // namespace longhaul
