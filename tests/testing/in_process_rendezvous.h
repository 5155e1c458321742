// A Rendezvous of threads of one process.
#pragma once

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/collective/rendezvous.h"

namespace longhaul {

// Thread-safe. All ranks share it. It serves one exchange.
class InProcessRendezvous : public Rendezvous {
 public:
  explicit InProcessRendezvous(int size) : blobs_(size), present_(size) {}
  absl::StatusOr<std::vector<std::string>> Exchange(int rank, std::string blob,
                                                    absl::Duration timeout) override;

 private:
  absl::Mutex mutex_;
  std::vector<std::string> blobs_ ABSL_GUARDED_BY(mutex_);
  std::vector<bool> present_ ABSL_GUARDED_BY(mutex_);
  int present_count_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace longhaul
