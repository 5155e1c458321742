#include "common/codec/cuda/memory_store.h"

#include <utility>

#include "common/base/status_macros.h"

namespace longhaul {

std::shared_ptr<MemoryStore> MemoryStore::Make(std::shared_ptr<DeviceRuntime> runtime,
                                               DeviceRuntime::Memory kind) {
  return std::shared_ptr<MemoryStore>(new MemoryStore(std::move(runtime), kind));
}

MemoryStore::~MemoryStore() { FreeUnused(); }

absl::StatusOr<std::shared_ptr<uint8_t>> MemoryStore::Take(int64_t bytes) {
  void* memory = TakeUnused(bytes);
  if (memory == nullptr) {
    absl::StatusOr<void*> fresh = runtime_->Allocate(kind_, bytes);
    if (absl::IsResourceExhausted(fresh.status())) {
      FreeUnused();
      fresh = runtime_->Allocate(kind_, bytes);
    }
    LH_ASSIGN_OR_RETURN(memory, std::move(fresh));
  }
  return std::shared_ptr<uint8_t>(static_cast<uint8_t*>(memory),
                                  [store = shared_from_this(), bytes](uint8_t* block) {
                                    absl::MutexLock lock(&store->mutex_);
                                    store->unused_.emplace(bytes, block);
                                  });
}

// Takes the smallest block that is large enough, unless most of it would be unused.
void* MemoryStore::TakeUnused(int64_t& bytes) {
  absl::MutexLock lock(&mutex_);
  const auto found = unused_.lower_bound(bytes);
  if (found == unused_.end() || found->first / 2 > bytes) return nullptr;
  bytes = found->first;
  void* const memory = found->second;
  unused_.erase(found);
  return memory;
}

void MemoryStore::FreeUnused() {
  std::multimap<int64_t, void*> unused;
  {
    absl::MutexLock lock(&mutex_);
    unused.swap(unused_);
  }
  for (const auto& [bytes, memory] : unused) runtime_->Free(kind_, memory);
}

}  // namespace longhaul
