// The stream on which torch enqueues a device's kernels.
#pragma once

#include "c10/core/Device.h"
#include "c10/core/impl/VirtualGuardImpl.h"

namespace longhaul {

// A cudaStream_t: the current stream of this thread. Null for the CPU, where emulated kernels have
// none.
inline void* CurrentStream(at::Device device) {
  if (device.is_cpu()) return nullptr;
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device).native_handle();
}

}  // namespace longhaul
