// A job's open store, and what has arrived for its next rounds. The job, its works and its streams
// share it. When the last of them lets go, its memory is given back, and whoever closed it is told.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "common/checkpoint/reader.h"
#include "coordinator/fragments/contributions.h"
#include "coordinator/store/job_store.h"

namespace longhaul::coordinator {

// Thread-safe.
class SharedStore {
 public:
  // With the contributions to uncommitted rounds that the log holds.
  explicit SharedStore(std::unique_ptr<JobStore> store);
  ~SharedStore();

  JobStore& operator*() const { return *store_; }
  JobStore* operator->() const { return store_.get(); }
  Contributions& contributions() { return contributions_; }

  // Streams that see it end. `gone` is called once nothing holds the store any more, on the thread
  // that lets go last. Call once, by whoever holds the store for the job.
  void Close(absl::AnyInvocable<void()> gone);
  bool closing() const { return closing_; }

  // The checkpoint that the job begins with, open while the job is seeded. The reader is used under
  // the mutex.
  struct SeedSource {
    absl::Mutex mutex;
    std::optional<CheckpointReader> reader ABSL_GUARDED_BY(mutex);
  };
  SeedSource& seed_source() { return seed_source_; }

  // A task that writes due snapshots waits in the background.
  std::atomic<bool> snapshot_asked = false;

 private:
  std::unique_ptr<JobStore> store_;
  Contributions contributions_;
  SeedSource seed_source_;
  std::atomic<bool> closing_ = false;
  absl::AnyInvocable<void()> gone_;
};

}  // namespace longhaul::coordinator
