// Memory of a CUDA device, and pinned host memory. Header-only, for CUDA modules, which link the
// runtime themselves.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/device/cuda_status.h"
#include "cuda_runtime_api.h"

namespace longhaul {

// Calls of this thread are about the device from now on. Errors: those of CudaStatus.
inline absl::Status UseCudaDevice(int device) {
  return CudaStatus(cudaSetDevice(device), "cudaSetDevice");
}

// Memory for FreeCudaMemory, with any content. `pinned`: of the host, and not of the device. Uses
// the device. Errors: those of CudaStatus; the message names the place and the bytes.
inline absl::StatusOr<void*> AllocateCudaMemory(int device, bool pinned, int64_t bytes) {
  LH_RETURN_IF_ERROR(UseCudaDevice(device));
  void* memory = nullptr;
  const cudaError_t error =
      pinned ? cudaHostAlloc(&memory, bytes, cudaHostAllocPortable) : cudaMalloc(&memory, bytes);
  if (error == cudaSuccess) return memory;
  return CudaStatus(
      error, absl::StrCat(pinned ? "pinning host memory of " : "allocating device memory of ",
                          bytes, " bytes"));
}

// Uses the device: otherwise a thread that used none would open the first one, which may be that of
// another rank.
inline void FreeCudaMemory(int device, bool pinned, void* memory) {
  cudaSetDevice(device);
  pinned ? cudaFreeHost(memory) : cudaFree(memory);
}

}  // namespace longhaul
