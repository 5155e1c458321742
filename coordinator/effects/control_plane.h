// What the service may do with jobs and pools, and what it sees of them. It is all that the layers
// above `effects` know of the core: commands (events that callers cause), their answers, notices
// (see publisher.h), and views. How works end, and which records and works follow a command, is
// between the core and the performer, which implements this.
//
// Owner thread, except where marked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/config/job_spec.h"
#include "common/logging/logging.h"
#include "coordinator/core/decision.h"
#include "coordinator/core/event.h"
#include "coordinator/core/view.h"
#include "coordinator/effects/job_tracks.h"
#include "coordinator/effects/live_job.h"
#include "coordinator/fragments/fragments.h"
#include "coordinator/store/meta_store.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul::coordinator {

using Command = std::variant<CancelJob, PauseJob, ResumeJob, AskCheckpoint, JoinPool, Heartbeat,
                             LeavePool, RankReady>;
// Called once, with the answer, or with nothing if the command has none.
using OnAnswer = absl::AnyInvocable<void(const std::optional<Answer>&)>;

struct Submitted {
  std::string job;
  bool created = false;
};
struct Deleted {
  std::string job;
  // By this call.
  bool deleted = false;
};

class ControlPlane {
 public:
  virtual ~ControlPlane() = default;

  virtual void Do(const Command& command, OnAnswer on_answer) = 0;
  // Submits the job, or finds the one that an earlier submission made. Blocks on the disk.
  //   ALREADY_EXISTS      NAME_TAKEN: by a job with another spec, or by one that has failed or was
  //                       cancelled; TOKEN_TAKEN: the token came with another spec
  //   FAILED_PRECONDITION the checkpoint that it begins with does not exist any more
  //   RESOURCE_EXHAUSTED  the disk is full (the job may exist later); the core's refusals
  // `owner`: the user who submits it, or empty if not known.
  virtual absl::StatusOr<Submitted> Submit(ResolvedJob resolved, const std::string& token,
                                           const std::string& owner = "") = 0;
  // Deletes a job that has ended, by name or id, and frees its name. Its files are removed later.
  //   NOT_FOUND   JOB_UNKNOWN: there is none, and none of that name was deleted
  //   others      the core's refusals (DeleteJob)
  virtual void Delete(const std::string& name_or_id,
                      absl::AnyInvocable<void(absl::StatusOr<Deleted>)> done) = 0;

  // The events after a sequence, of a job that is live or in the database. Empty if there is no
  // such job.
  virtual std::vector<v1::JobEvent> EventsAfter(const std::string& job, int64_t sequence) const = 0;
  // Null if the job is unknown, or has ended and nothing is left to do for it.
  virtual std::shared_ptr<LiveJob> Find(absl::string_view id) const = 0;
  virtual std::vector<std::shared_ptr<LiveJob>> All() const = 0;
  // Any thread.
  virtual std::optional<JobView> View(const std::string& job) const = 0;
  virtual std::optional<ParticipantView> Place(const std::string& job,
                                               const std::string& pool) const = 0;
  // By name: the first `count` whose names are greater than `after`. Any thread.
  virtual std::vector<PoolView> Pools(const std::string& after = "",
                                      size_t count = std::numeric_limits<size_t>::max()) const = 0;
  // When this job, which has ended, is deleted for its age. InfiniteFuture: never.
  virtual absl::Time KeptUntil(const JobRecord& ended) const = 0;

  virtual absl::Time now() const = 0;
  // Any thread.
  virtual MetaStore& meta() const = 0;
  virtual Fragments& fragments() const = 0;
  virtual const Logger& log() const = 0;
  // May be null.
  virtual JobTracks* tracks() const = 0;
};

}  // namespace longhaul::coordinator
