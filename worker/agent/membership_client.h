// A pool's lease: joins, sends heartbeats, brings back what the pool is to work on. While the
// coordinator is away it tries again, with jitter, for ever, and the ranks go on; it gives up only
// what no retry can mend. Has a thread and a control channel of its own, so that bulk transfers
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

namespace longhaul {

class MembershipClient {
 public:
  struct Options {
    Logger log = Logger({});
    std::string coordinator;         // host:port
    std::shared_ptr<const Tls> tls;  // Null: plaintext.
    TlsFiles tls_files;              // What tls was made of, to say what is wrong with a link.
    v1::JoinRequest join;            // Without incarnation: each Rejoin makes a new one.
    absl::Duration heartbeat = absl::Milliseconds(500);  // At most a third of the lease.
    absl::Duration complaints = absl::Seconds(10);  // Between two lines about a name that is taken.
  };
  // What ranks were started for.
  struct Subject {
    std::string incarnation, job;
    int ordinal = 0;
    friend bool operator==(const Subject&, const Subject&) = default;
  };
  struct Standing {
    // Under which ranks work: the agent's, or that of the group of nodes.
    std::string incarnation;
    // Empty job_id: nothing to do.
    v1::Assignment assignment;
    // Of a pool of several nodes. Without an incarnation nobody works.
    v1::NodePlace node;

    Subject subject() const { return {incarnation, assignment.job_id(), assignment.ordinal()}; }
  };
  // Called on the client's thread with every answer of the coordinator, also with one like the
  // last.
  using OnStanding = std::function<void(const Standing& standing)>;
  // Called on the client's thread, once, last: the coordinator refused this pool for good
  // (INVALID_ARGUMENT, UNAUTHENTICATED, PERMISSION_DENIED), is no coordinator (UNIMPLEMENTED), or
  // one of the two speaks TLS and the other does not (FAILED_PRECONDITION).
  using OnRefused = std::function<void(const absl::Status& status)>;

  MembershipClient(Options options, OnStanding on_standing, OnRefused on_refused = nullptr);
  // Gives the lease back (waits at most 2 s for it) and joins the thread.
  ~MembershipClient();

  // What the next heartbeats carry about the assigned job. Thread-safe, do not block. What is of
  // another subject than the last answer's is dropped: the coordinator would take it for this one's.
  // Evaluations are repeated until they are acknowledged; a failure is sent until a heartbeat took
  // it. `urgent`: with a heartbeat at once.
  void SetProgress(const Subject& of, const v1::PoolProgress& progress, bool urgent);
  // Of the pool's own parameters: dropped, if this coordinator does not take them.
  void AddEvaluation(const Subject& of, const v1::Evaluation& evaluation);
  void ReportFailure(const Subject& of, const v1::JobError& failure);
  // Every heartbeat about this job from now on says that the pool came to its end.
  void SetFinished(const Subject& of);

  // Every heartbeat from now on says that the pool takes no new work; the first goes at once.
  // Thread-safe, does not block. Of a group of nodes that has ended: dropped.
  void SetDraining(const Subject& of);
  // What the lease is given back with at the end. Thread-safe.
  void SetFarewell(const std::string& reason, absl::Duration return_within);

  // Of the control channel: the smallest of a few calls. Thread-safe. Blocks for a few round
  // trips, at most `timeout`; returns the channel's error.
  absl::StatusOr<absl::Duration> MeasureRoundTrip(absl::Duration timeout) const;

  // Leaves, and comes back after `delay` as a new incarnation. Thread-safe.
  void Rejoin(const std::string& reason, absl::Duration delay);

 private:
  struct RejoinRequest {
    std::string reason;
    absl::Duration delay;
  };
  struct Farewell {
    std::string reason = "the worker stops";
    absl::Duration return_within;
  };

  void Run(const std::stop_token& stop);
  absl::StatusOr<absl::Duration> Join();
  void Hear(const v1::JoinResponse& response) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<absl::Duration> Beat();
  void Leave(const std::string& reason, absl::Duration return_within = absl::ZeroDuration());
  void Apply(const v1::Assignment& assignment, const v1::NodePlace& node);
  // Says which nodes are missing: at once, then now and then.
  void TellMissing(const v1::NodePlace& node);
  void DropReports() ABSL_LOCKS_EXCLUDED(mutex_);
  // Says what goes wrong: each trouble once, then now and then.
  void Complain(const absl::Status& trouble);
  // The status to give up with; OK: try again.
  absl::Status WhetherFinal(const absl::Status& failure);
  std::optional<RejoinRequest> TakeRejoin() ABSL_LOCKS_EXCLUDED(mutex_);
  void Pause(absl::Duration duration, const std::stop_token& stop) ABSL_LOCKS_EXCLUDED(mutex_);

  const Options options_;
  const OnStanding on_standing_;
  const OnRefused on_refused_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::PoolService::Stub> stub_;

  // The client's thread only.
  std::string incarnation_;
  bool joined_ = false;
  bool ever_joined_ = false;
  // The node's part in the group, as last told.
  v1::NodePlace node_;
  std::string missing_;
  absl::Time missing_told_;
  std::string other_version_;  // Of the coordinator, if not this program's.
  // The trouble at hand.
  std::string trouble_;
  absl::Time troubled_since_, complained_at_;
  absl::Duration lease_seen_;  // The longest rest of another agent's lease on our name.
  int probes_ = 0;             // Failures until the link is looked at again.
  std::string link_trouble_;   // What was seen then. Empty: nothing.

  absl::Mutex mutex_;
  std::optional<Subject> subject_ ABSL_GUARDED_BY(mutex_);  // As last handed on.
  v1::HeartbeatRequest next_ ABSL_GUARDED_BY(mutex_);  // progress, job_id, failure, evaluations.
  std::optional<RejoinRequest> rejoin_ ABSL_GUARDED_BY(mutex_);
  bool urgent_ ABSL_GUARDED_BY(mutex_) = false;  // Do not wait for the next beat.
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool takes_pool_evaluations_ ABSL_GUARDED_BY(mutex_) = false;  // The coordinator joined last.
  Farewell farewell_ ABSL_GUARDED_BY(mutex_);

  std::jthread thread_;
};

}  // namespace longhaul
