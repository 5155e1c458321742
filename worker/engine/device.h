// Opens the device that a rank computes on. It loads the CUDA half of libtorch (230 MB resident),
// which a rank on a CPU never needs. Call it before the first tensor is differentiated: torch looks
// for devices only once. Called from one thread.
#pragma once

#include "ATen/core/Tensor.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "c10/core/Device.h"

namespace longhaul {

// The device is then the calling thread's current one, for what is launched without torch.
// FAILED_PRECONDITION "no CUDA device": there is no driver or no device, or the CUDA half of
// libtorch cannot be loaded (the message says which). Otherwise the error of torch_status.h.
absl::StatusOr<at::Device> OpenCudaDevice(int index);

// Returns a copy on `device` of a tensor that lies in host memory. The copy is enqueued on the
// current stream; the call does not wait for the device. `host` may be freed when it returns.
// Throws as torch does.
at::Tensor CopyToDevice(const at::Tensor& host, at::Device device);

// Waits until the device has done what was enqueued on the current stream. (torch's own waits have
// no deadline.) `what` names the wait. DEADLINE_EXCEEDED: it has not after `patience`. Throws as
// torch does.
absl::Status AwaitDevice(at::Device device, absl::string_view what, absl::Duration patience);

}  // namespace longhaul
