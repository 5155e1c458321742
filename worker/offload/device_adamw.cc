#include "worker/offload/device_adamw.h"

namespace longhaul {

absl::Status EmulatedAdamW(const DeviceUpdate& update, void*) {
  AdamWKernel(MakeAdamWConstants(update.options, update.update, update.count, update.decay),
              update.elements, update.arrays);
  return absl::OkStatus();
}

}  // namespace longhaul
