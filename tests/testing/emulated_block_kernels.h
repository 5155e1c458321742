// The kernels of transformer blocks (worker/kernels/cuda), run on the CPU at once. Thread-safe; one
// at a time in the whole process.
#pragma once

#include "worker/kernels/cuda/block_kernels.h"

namespace longhaul::testing_support {

class EmulatedBlockKernels : public BlockKernels {
 public:
  absl::Status Rotate(const RotateJob& job, void* stream) const override;
  absl::Status GateForward(const GateJob& job, void* stream) const override;
  absl::Status GateBackward(const GateJob& job, void* stream) const override;
};

}  // namespace longhaul::testing_support
