// The functions with which InterleavedAdamW updates one subgroup: the AdamW kernel of a device, and
// the update of a matrix by another optimizer (Muon).
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "worker/optim/adamw_constants.h"

namespace longhaul {

// The update of one subgroup. The arrays lie where the function works.
struct DeviceUpdate {
  AdamWOptions options;
  UpdateOptions update;
  // The number of the update, 1-based.
  int64_t count = 0;
  bool decay = false;
  int64_t elements = 0;
  // The shape of a matrix that is updated as a whole; it has no variance. Otherwise 0.
  int64_t rows = 0, columns = 0;
  AdamWArrays arrays;
};

// Enqueues an update on the device. `stream`: see DeviceWork.
using DeviceAdamW = std::function<absl::Status(const DeviceUpdate& update, void* stream)>;

// Does an update in host memory, on the calling thread.
using HostUpdate = std::function<absl::Status(const DeviceUpdate& update)>;

// The DeviceAdamW of the emulated device: AdamWKernel on the calling thread.
absl::Status EmulatedAdamW(const DeviceUpdate& update, void* stream);

}  // namespace longhaul
