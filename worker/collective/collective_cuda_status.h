// CudaStatus for collectives. Header-only, for CUDA modules.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/device/cuda_status.h"

namespace longhaul {

// UNAVAILABLE instead of INTERNAL: a peer that ends may make this rank's device fail, too, so it is
// not certain that something is wrong here. Others: those of CudaStatus.
inline absl::Status CollectiveCudaStatus(cudaError_t error, absl::string_view what) {
  const absl::Status status = CudaStatus(error, what);
  return absl::IsInternal(status) ? absl::UnavailableError(status.message()) : status;
}

}  // namespace longhaul
