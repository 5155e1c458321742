#include "worker/engine/device.h"

#include <dlfcn.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "c10/core/Event.h"
#include "c10/core/impl/VirtualGuardImpl.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/device/cuda_module.h"
#include "worker/engine/torch_status.h"
#include "worker/movement/late_device.h"

namespace longhaul {
namespace {

constexpr absl::Duration kDevicePoll = absl::Microseconds(50);

}  // namespace

absl::StatusOr<at::Device> OpenCudaDevice(int index) {
  // The driver is asked, since the runtime library is among what is loaded here.
  LH_ASSIGN_OR_RETURN(const int count, CudaDeviceCount());
  if (index < 0 || index >= count) {
    return absl::FailedPreconditionError(
        absl::StrFormat("no CUDA device %d: this process sees %d", index, count));
  }
  // Kernels register themselves when the library is loaded; it stays for the life of the process.
  if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("no CUDA device: ", dlerror()));
  }
  const at::Device device(at::kCUDA, static_cast<at::DeviceIndex>(index));
  // torch's operators take the device of their tensors, but what is launched beside torch (kernels
  // of a layer, copies) that of the thread.
  LH_RETURN_IF_ERROR(CatchTorch("choosing the CUDA device", [&] {
    c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
    return absl::OkStatus();
  }));
  return device;
}

// CUDA copies memory that is not pinned only when the stream reaches the copy, and blocks the
// caller until then.
at::Tensor CopyToDevice(const at::Tensor& host, at::Device device) {
  const auto options = host.options().device(device);
  if (device.is_cuda()) return host.pin_memory().to(options, /*non_blocking=*/true);
  return host.to(options, /*non_blocking=*/false, /*copy=*/true);
}

absl::Status AwaitDevice(at::Device device, absl::string_view what, absl::Duration patience) {
  if (device.is_cpu()) return absl::OkStatus();
  c10::Event reached(device.type());
  reached.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  const absl::Time deadline = SteadyTime() + patience;
  while (!reached.query()) {
    if (SteadyTime() >= deadline) return LateDeviceError(what, patience);
    absl::SleepFor(kDevicePoll);
  }
  return absl::OkStatus();
}

}  // namespace longhaul
