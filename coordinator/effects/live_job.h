// A job that has not ended, or ended so lately that its pools may still ask for the last commits:
// what the services and the data plane share about it.
//
//   LiveJobs --shared--> LiveJob --owns--> JobStore (from SEEDING on), Contributions, counters
//   streams in flight hold it too, so that a job's end never takes memory from under them
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/codec/codec.h"
#include "common/config/job_spec.h"
#include "coordinator/job/job_options.h"
#include "coordinator/service/contributions.h"
#include "coordinator/service/job_progress.h"
#include "coordinator/service/wire_counters.h"
#include "coordinator/store/job_store.h"
#include "coordinator/store/meta_store.h"

namespace longhaul::coordinator {

// Thread-safe, but for what is marked.
class LiveJob {
 public:
  // UNIMPLEMENTED: a codec that this build lacks.
  static absl::StatusOr<std::shared_ptr<LiveJob>> Create(JobRecord record, ResolvedJob resolved);

  const std::string& id() const { return id_; }
  const std::string& name() const { return resolved_.spec.name(); }
  const ResolvedJob& resolved() const { return resolved_; }
  int fragments() const { return static_cast<int>(resolved_.fragments.size()); }
  bool HasFragment(int64_t fragment) const { return fragment >= 0 && fragment < fragments(); }
  int64_t elements(int fragment) const { return resolved_.fragments[fragment].elements; }

  const Codec& up() const { return *up_; }
  const Codec& down() const { return *down_; }
  const Codec& exact() const { return *exact_; }
  // What a contribution to a round of this kind is coded with.
  const Codec& CodecFor(RoundKind kind) const { return kind == RoundKind::kSeed ? *exact_ : *up_; }

  // Null before SEEDING. Set once.
  JobStore* store() const;
  void set_store(std::unique_ptr<JobStore> store);

  Contributions& contributions() { return contributions_; }
  const Contributions& contributions() const { return contributions_; }
  WireCounter& bytes_up() { return bytes_up_; }
  WireCounter& bytes_down() { return bytes_down_; }
  const WireCounter& bytes_up() const { return bytes_up_; }
  const WireCounter& bytes_down() const { return bytes_down_; }

  // Which incarnation of a pool has a place. ABORTED (POOL_LOST): not this one.
  absl::Status CheckPlace(const std::string& pool, const std::string& incarnation) const;
  void SetPlace(const ParticipantRecord& place);

  // --- Owner thread.
  JobRecord record;  // As it is in the store, but for `status`.
  JobProgress progress;
  absl::Time counters_saved = absl::InfinitePast();
  absl::Time forget_at = absl::InfiniteFuture();  // Set when the job ends.
  std::map<int, ParticipantRecord> participants;  // By ordinal.
  std::string blocked;  // What the coordinator itself lacks, in words. Empty: nothing.

  std::atomic<bool> snapshot_asked =
      false;  // A look at the snapshots waits in the background. Any thread.

 private:
  LiveJob(JobRecord record, ResolvedJob resolved);

  const std::string id_;
  const ResolvedJob resolved_;
  std::unique_ptr<Codec> up_, down_, exact_;
  Contributions contributions_;
  WireCounter bytes_up_, bytes_down_;
  mutable absl::Mutex mutex_;
  std::unique_ptr<JobStore> store_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> places_ ABSL_GUARDED_BY(mutex_);  // Pool to incarnation.
};

// What the core is told of a job, and its store.
JobOptions JobOptionsOf(const ResolvedJob& resolved);
JobStoreOptions JobStoreOptionsOf(const ResolvedJob& resolved);
// Where each named tensor lies, for checkpoints.
std::vector<v1::CheckpointTensor> TensorsOf(const ResolvedJob& resolved);

}  // namespace longhaul::coordinator
