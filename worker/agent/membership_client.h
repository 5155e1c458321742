// A pool's lease: joins, sends heartbeats, and receives what the pool is to work on. While the
// coordinator is away it tries again, with jitter, without end, and the ranks continue. It gives up
// only if no retry can help. It has its own thread and control channel, so that bulk transfers
// cannot delay a heartbeat.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/logging/logging.h"
#include "common/rpc/tls.h"
#include "grpcpp/channel.h"
#include "longhaul/v1/pool.grpc.pb.h"
#include "worker/agent/agent_membership.h"

namespace longhaul {

// The interval of heartbeats of a pool that has had nothing to do for a while. It learns of a new
// job at most this much later.
inline constexpr absl::Duration kIdleHeartbeat = absl::Milliseconds(1500);

// An agent that has done nothing for less is not taken for one that stands still: it may wait for
// a rank's end.
inline constexpr absl::Duration kStandsAtLeast = absl::Seconds(20);

class MembershipClient {
 public:
  struct Options {
    Logger log = Logger({});
    // HOST:PORT.
    std::string coordinator;
    // Null: plaintext.
    std::shared_ptr<const Tls> tls;
    // The files of `tls`, to explain what is wrong with a link.
    TlsFiles tls_files;
    // Without an incarnation: each Rejoin makes a new one.
    v1::JoinRequest join;
    // See IncarnationRecord: the incarnation that ended here before, and what is told of each new
    // one before it joins, on the client's thread. Empty, null: none is known, nothing is told.
    std::string before;
    std::function<void(const std::string& incarnation)> on_incarnation;
    // At most a third of the lease.
    absl::Duration heartbeat = absl::Milliseconds(500);
    // The interval for a pool of one node that has had nothing to do for `idle_after`, as most
    // pools of a large fleet.
    absl::Duration idle_heartbeat = kIdleHeartbeat;
    absl::Duration idle_after = absl::Seconds(30);
    // Ids of the jobs whose inner state is kept here, asked before each Join and so often; and what
    // is told of those that have ended. Both are called on the client's thread. Null: none is kept.
    absl::Duration kept_jobs_every = absl::Minutes(10);
    std::function<std::vector<std::string>()> kept_jobs;
    std::function<void(const std::vector<std::string>& jobs)> on_ended_jobs;
    // How long the agent has stood still. While that is at least the lease, and kStandsAtLeast, the
    // lease is not renewed: else the job's other pools would wait for an agent that does nothing.
    // Null: it never does.
    std::function<absl::Duration()> stalled_for;
    // The time between two log lines about a name that is taken.
    absl::Duration complaints = absl::Seconds(10);
  };
  using Subject = AgentMembership::Subject;
  struct State {
    // The incarnation under which ranks work: the agent's, or that of the group of nodes.
    std::string incarnation;
    // If job_id is empty there is nothing to do.
    v1::Assignment assignment;
    // For a pool of several nodes. Without an incarnation no rank works.
    v1::NodePlace node;
    // As the coordinator granted it.
    absl::Duration lease;

    Subject subject() const { return {incarnation, assignment.job_id(), assignment.ordinal()}; }
  };
  // Called on the client's thread with every answer of the coordinator, even if nothing changed.
  using OnState = std::function<void(const State& state)>;
  // Called on the client's thread, once, as the last call. The coordinator refused this pool for
  // good (INVALID_ARGUMENT, UNAUTHENTICATED, PERMISSION_DENIED), or the server is not a coordinator
  // (UNIMPLEMENTED), or only one of the two speaks TLS (FAILED_PRECONDITION).
  using OnRefused = std::function<void(const absl::Status& status)>;

  MembershipClient(Options options, OnState on_state, OnRefused on_refused = nullptr);
  // Gives the lease back (waits at most 2 s for it) and joins the thread.
  ~MembershipClient();

  // What the next heartbeats report about the assigned job. Thread-safe; do not block. A report is
  // dropped if it is about another subject than the last answer: the coordinator would take it for
  // the current one. Evaluations are repeated until they are acknowledged. A failure is repeated
  // until a heartbeat took it. `urgent`: the heartbeat is sent at once.
  void SetProgress(const Subject& of, const v1::PoolProgress& progress, bool urgent);
  // Evaluations of the pool's own parameters are dropped if this coordinator does not take them.
  void AddEvaluation(const Subject& of, const v1::Evaluation& evaluation);
  void ReportFailure(const Subject& of, const v1::JobError& failure);
  // From now on every heartbeat about this job says that the pool merged the last commits.
  void SetMerged(const Subject& of);
  // From now on every heartbeat about this job says that the pool came to its end.
  void SetFinished(const Subject& of);

  // From now on every heartbeat about this job says that the pool does no further step of it. A
  // coordinator that does not take that hears that the pool drains.
  void SetStopping(const Subject& of);
  // From now on every heartbeat about this job says that its ranks have ended, as was asked.
  void SetStopped(const Subject& of);
  // Takes both back: other ranks were started.
  void ClearStopping();
  // From now on every heartbeat says that the pool takes no new work; the first is sent at once.
  // Thread-safe, does not block. Dropped if it is about a group of nodes that has ended.
  void SetDraining(const Subject& of);
  // What is said when the lease is given back at the end. Thread-safe.
  void SetFarewell(const std::string& reason, absl::Duration return_within);

  // The round trip of the control channel: the shortest of a few calls. Thread-safe. Blocks for a
  // few round trips, at most `timeout`. Returns the channel's error.
  absl::StatusOr<absl::Duration> MeasureRoundTrip(absl::Duration timeout) const;

  // Leaves, and comes back after `delay` as a new incarnation. Thread-safe. Dropped if it
  // works as another incarnation already: it also lost its lease, and came back for that.
  void Rejoin(const Subject& of, const std::string& reason, absl::Duration delay);

 private:
  struct RejoinRequest {
    Subject of;
    std::string reason;
    absl::Duration delay;
  };
  struct Farewell {
    std::string reason = "the worker stops";
    absl::Duration return_within;
  };

  void Run(const std::stop_token& stop);
  // Reports the last progress of a pool that drains, and leaves with the farewell.
  void Depart();
  absl::StatusOr<absl::Duration> Join(const std::stop_token& stop);
  void Hear(const v1::JoinResponse& response) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<absl::Duration> Beat();
  // The jobs that the coordinator is asked about now.
  std::vector<std::string> AskAboutKept();
  void TellEnded(std::vector<std::string> kept,
                 const google::protobuf::RepeatedPtrField<std::string>& ended) const;
  void Leave(const std::string& reason, absl::Duration return_within = absl::ZeroDuration())
      ABSL_LOCKS_EXCLUDED(mutex_);
  // `change` of the membership returns whether reports so far do not count any more. Then passes on
  // what holds now.
  void Apply(const v1::Assignment& assignment, const v1::NodePlace& node,
             const std::function<bool(AgentMembership&)>& change) ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes an answer. An answer to a heartbeat may leave out the spec that is here already.
  void Grant(v1::Assignment assignment, const v1::NodePlace& node);
  void BeginAnew();
  // Whether to go on at once.
  bool Recover(const absl::Status& error) ABSL_LOCKS_EXCLUDED(mutex_);
  bool joined() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return membership_.joined();
  }
  // Logs which nodes are missing: at once, and then at intervals.
  void TellMissing(const v1::NodePlace& node);
  void DropReports() ABSL_LOCKS_EXCLUDED(mutex_);
  // What the log says about a problem. Equal texts mean that it is still the same problem.
  std::string TextOf(const absl::Status& trouble) const;
  // Logs a problem: a new one at once, and then at intervals.
  void Complain(const absl::Status& trouble);
  // The status with which to give up, or OK to try again.
  absl::Status WhetherFinal(const absl::Status& failure);
  std::optional<RejoinRequest> TakeRejoin() ABSL_LOCKS_EXCLUDED(mutex_);
  void Pause(absl::Duration duration, const std::stop_token& stop) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Duration Period() const;
  // Whether the agent stands still. Logs when that begins and ends.
  bool Stands();

  const Options options_;
  const OnState on_state_;
  const OnRefused on_refused_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::PoolService::Stub> stub_;

  // The client's thread only.
  bool ever_joined_ = false;
  // As last granted.
  absl::Duration lease_;
  // The newest assignment that came with a spec.
  v1::Assignment with_spec_;
  absl::Time asked_about_kept_;
  // If there are too many kept jobs for one request: the last that was asked about.
  std::string asked_about_last_;
  // Empty if there is something to do, or may be soon.
  std::optional<absl::Time> idle_since_;
  std::string missing_;
  absl::Time missing_told_;
  // The coordinator's version, if it is not this program's.
  std::string other_version_;
  bool stands_ = false;
  // The current problem.
  std::string trouble_;
  absl::Time troubled_since_, complained_at_;
  // The longest time that another agent's lease on our name still had.
  absl::Duration lease_seen_;
  // How many more failures until the link is examined again.
  int probes_ = 0;
  // The result of that examination. Empty: nothing was found.
  std::string link_trouble_;

  mutable absl::Mutex mutex_;
  AgentMembership membership_ ABSL_GUARDED_BY(mutex_);
  // The next heartbeat's progress, job_id, failure and evaluations.
  v1::HeartbeatRequest next_ ABSL_GUARDED_BY(mutex_);
  std::optional<RejoinRequest> rejoin_ ABSL_GUARDED_BY(mutex_);
  // Send the next heartbeat at once.
  bool urgent_ ABSL_GUARDED_BY(mutex_) = false;
  // The coordinator that was joined last takes them.
  bool takes_pool_evaluations_ ABSL_GUARDED_BY(mutex_) = false;
  bool takes_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Farewell farewell_ ABSL_GUARDED_BY(mutex_);

  std::jthread thread_;
};

}  // namespace longhaul
