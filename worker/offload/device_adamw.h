// The AdamW kernel of a device, as the interleaved update enqueues it; and what updates matrices that
// another optimizer (Muon) wants whole.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "worker/optim/adamw_constants.h"

namespace longhaul {

// One subgroup in device memory.
struct DeviceUpdate {
  AdamWOptions options;
  UpdateOptions update;
  int64_t count = 0;  // 1-based.
  bool decay = false;
  int64_t elements = 0;
  int64_t rows = 0, columns = 0;  // Of a matrix; it has no variance. Else 0.
  AdamWArrays arrays;
};

// `stream`: see DeviceWork.
using DeviceAdamW = std::function<absl::Status(const DeviceUpdate& update, void* stream)>;

// The same in host memory, on the calling thread.
using HostUpdate = std::function<absl::Status(const DeviceUpdate& update)>;

// Of the emulated device: the host's own kernel, on one thread.
absl::Status EmulatedAdamW(const DeviceUpdate& update, void* stream);

}  // namespace longhaul
