// Memory of a device, or pinned host memory, that is used again. Allocating or freeing either may
// stop the device, so blocks that are given back are kept.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/codec/cuda/device_runtime.h"

namespace longhaul {

// Thread-safe. Blocks may outlive the store's other owners, since they keep it and the runtime
// alive.
class MemoryStore : public std::enable_shared_from_this<MemoryStore> {
 public:
  static std::shared_ptr<MemoryStore> Make(std::shared_ptr<DeviceRuntime> runtime,
                                           DeviceRuntime::Memory kind);
  ~MemoryStore();
  MemoryStore(const MemoryStore&) = delete;

  // At least so many bytes (more than 0), not initialised. They are given back when the last copy
  // of the pointer ends. RESOURCE_EXHAUSTED: there was not enough memory, even after unused blocks
  // were freed.
  absl::StatusOr<std::shared_ptr<uint8_t>> Take(int64_t bytes);

 private:
  MemoryStore(std::shared_ptr<DeviceRuntime> runtime, DeviceRuntime::Memory kind)
      : runtime_(std::move(runtime)), kind_(kind) {}
  void* TakeUnused(int64_t& bytes);
  void FreeUnused();

  const std::shared_ptr<DeviceRuntime> runtime_;
  const DeviceRuntime::Memory kind_;
  absl::Mutex mutex_;
  // By size.
  std::multimap<int64_t, void*> unused_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul
