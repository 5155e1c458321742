#include "worker/engine/device.h"

#include <dlfcn.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"

namespace longhaul {
namespace {

// Asks the driver itself, since the runtime library is among what OpenCudaDevice loads.
absl::StatusOr<int> CountCudaDevices() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr)
    return absl::FailedPreconditionError("no CUDA device: the NVIDIA driver is not installed");
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto get_count = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
  if (init == nullptr || get_count == nullptr) {
    return absl::FailedPreconditionError("no CUDA device: libcuda.so.1 is not NVIDIA's driver");
  }
  int count = 0;
  if (const int error = init(0); error != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("no CUDA device: cuInit gives error ", error));
  }
  if (const int error = get_count(&count); error != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("no CUDA device: cuDeviceGetCount gives error ", error));
  }
  return count;
}

}  // namespace

absl::StatusOr<at::Device> OpenCudaDevice(int index) {
  LH_ASSIGN_OR_RETURN(const int count, CountCudaDevices());
  if (index < 0 || index >= count) {
    return absl::FailedPreconditionError(
        absl::StrFormat("no CUDA device %d: this process sees %d", index, count));
  }
  // Kernels register themselves when the library is loaded; it stays for the life of the process.
  if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("no CUDA device: ", dlerror()));
  }
  return at::Device(at::kCUDA, static_cast<at::DeviceIndex>(index));
}

// CUDA copies memory that is not pinned only when the stream reaches the copy, and blocks the
// caller until then.
at::Tensor CopyToDevice(const at::Tensor& host, at::Device device) {
  const auto options = host.options().device(device);
  if (device.is_cuda()) return host.pin_memory().to(options, /*non_blocking=*/true);
  return host.to(options, /*non_blocking=*/false, /*copy=*/true);
}

}  // namespace longhaul
