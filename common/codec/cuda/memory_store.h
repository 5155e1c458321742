// Memory of a device, or pinned host memory, that is used again: to allocate or free either may
// stop the device, so blocks are kept when they are given back.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/codec/cuda/device_runtime.h"

namespace longhaul {

// Thread-safe. Blocks may outlive the store's other owners; they keep it and the runtime alive.
class MemoryStore : public std::enable_shared_from_this<MemoryStore> {
 public:
  static std::shared_ptr<MemoryStore> Make(std::shared_ptr<DeviceRuntime> runtime,
                                           DeviceRuntime::Memory kind);
  ~MemoryStore();
  MemoryStore(const MemoryStore&) = delete;

  // At least so many bytes (more than 0), not initialised; given back when the last copy of the
  // pointer ends. RESOURCE_EXHAUSTED, after what lies here unused was freed.
  absl::StatusOr<std::shared_ptr<uint8_t>> Take(int64_t bytes);

 private:
  MemoryStore(std::shared_ptr<DeviceRuntime> runtime, DeviceRuntime::Memory kind)
      : runtime_(std::move(runtime)), kind_(kind) {}
  void* TakeUnused(int64_t& bytes);
  void FreeUnused();

  const std::shared_ptr<DeviceRuntime> runtime_;
  const DeviceRuntime::Memory kind_;
  absl::Mutex mutex_;
  std::multimap<int64_t, void*> unused_ ABSL_GUARDED_BY(mutex_);  // By size.
};

}  // namespace longhaul
