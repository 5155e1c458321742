// The bytes of one job: its store, the contributions that arrive, the codecs, and counters of what
// was sent and received.
//
//   Fragments --shared--> JobFragments --shared, while it is open--> SharedStore
//
// Streams and works in progress share both, so that no memory is freed while they use it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/base/clock.h"
#include "common/codec/codec.h"
#include "coordinator/fragments/shared_store.h"
#include "coordinator/fragments/wire_counter.h"
#include "longhaul/v1/checkpoint.pb.h"

namespace longhaul::coordinator {

// The checkpoint that a job begins with.
struct InitialCheckpoint {
  // The id of a job of this coordinator. Empty: `folder` is given, or an upload
  // (coordinator/store/uploads.h).
  std::string job;
  int64_t step = 0;
  std::string folder;
  std::string upload;
  // Of the folder or upload: the digest of its tokenizer (DataSpec.model_tokenizer), which is to be
  // kept with the job. Empty: nothing is.
  std::string tokenizer;
  // Where each tensor lies in the fragments.
  std::vector<v1::CheckpointTensor> tensors;
};

// What the fragments need to know about a job.
struct FragmentsOfJob {
  CodecOptions up;
  JobManifest manifest;
  std::optional<InitialCheckpoint> initial;
  // Contributions have a weight of 1 to this. In lockstep it is 1, else sync.h.
  int64_t weight_max = 1;
  // Must not go backwards.
  std::function<absl::Time()> now = SteadyTime;
};

// Thread-safe.
class JobFragments {
 public:
  // UNIMPLEMENTED: a codec that this build lacks.
  static absl::StatusOr<std::shared_ptr<JobFragments>> Create(FragmentsOfJob job);

  const std::string& id() const { return job_.manifest.id; }
  const std::string& name() const { return job_.manifest.name; }
  const JobManifest& manifest() const { return job_.manifest; }
  const std::optional<InitialCheckpoint>& initial() const { return job_.initial; }
  int count() const { return static_cast<int>(manifest().options.fragment_elements.size()); }
  bool Has(int64_t fragment) const { return fragment >= 0 && fragment < count(); }
  int64_t elements(int fragment) const { return manifest().options.fragment_elements[fragment]; }

  int64_t weight_max() const { return job_.weight_max; }

  const Codec& up() const { return *up_; }
  const Codec& down() const { return *down_; }
  // fp32: of seeds, and of outer parameters that are pulled.
  const Codec& exact() const { return *exact_; }
  // The codec of contributions to a round of this kind.
  const Codec& CodecFor(RoundKind kind) const { return kind == RoundKind::kSeed ? *exact_ : *up_; }

  // Null unless it is open.
  std::shared_ptr<SharedStore> store() const;
  // Returns the one before.
  std::shared_ptr<SharedStore> set_store(std::shared_ptr<SharedStore> store);

  WireCounter& bytes_up() { return bytes_up_; }
  WireCounter& bytes_down() { return bytes_down_; }
  const WireCounter& bytes_up() const { return bytes_up_; }
  const WireCounter& bytes_down() const { return bytes_down_; }

  // Why the store cannot be opened, contributions not be logged, a round not be applied, or the
  // final checkpoint not be written, now (the disk is full or does not answer), as a text. Empty:
  // they can, or nobody has tried to log or apply for kFullFor: a pool that is told of it comes
  // again every few seconds, and a round is tried again every second.
  static constexpr absl::Duration kFullFor = absl::Seconds(30);
  std::string full() const;
  // `why`: empty if it was stored. kAnswer: an operation of the disk, for which the job waits, has
  // not returned.
  enum class Storing { kPart, kRound, kOpening, kLastCheckpoint, kAnswer };
  void set_full(Storing what, absl::string_view why);

  // Calls `show`, which makes series of metrics with the job's name. Returns false and does not
  // call it once the job is hidden: nobody would remove them.
  bool ShowUnlessHidden(absl::FunctionRef<void()> show) ABSL_LOCKS_EXCLUDED(show_mutex_);
  // Streams that end later make no series any more. Returns when no call of `show` runs.
  void Hide() ABSL_LOCKS_EXCLUDED(show_mutex_);

  // Returns true once: then the caller must report the first fatal error of the store.
  bool TellFailure() { return !failed_.exchange(true); }

 private:
  explicit JobFragments(FragmentsOfJob job);

  const FragmentsOfJob job_;
  std::unique_ptr<Codec> up_, down_, exact_;
  WireCounter bytes_up_, bytes_down_;
  std::atomic<bool> failed_ = false;
  absl::Mutex show_mutex_;
  bool hidden_ ABSL_GUARDED_BY(show_mutex_) = false;
  mutable absl::Mutex mutex_;
  std::shared_ptr<SharedStore> store_ ABSL_GUARDED_BY(mutex_);
  struct Full {
    std::string why;
    absl::Time at;
  };
  // By Storing.
  std::array<Full, 5> full_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul::coordinator
