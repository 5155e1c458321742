// For kernels that are launched beside torch: the stream on which torch enqueues a device's own,
// and errors as torch has them.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "c10/core/Device.h"
#include "c10/core/impl/VirtualGuardImpl.h"
#include "c10/util/Exception.h"

namespace longhaul {

// A cudaStream_t: the current stream of this thread. Null for the CPU, where emulated kernels have
// none.
inline void* CurrentStream(at::Device device) {
  if (device.is_cpu()) return nullptr;
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device).native_handle();
}

inline void CheckLaunch(const absl::Status& status) {
  TORCH_CHECK(status.ok(), std::string(status.message()));
}

}  // namespace longhaul
