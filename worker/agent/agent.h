// The agent of a node: holds the pool's lease, starts the rank processes of the assigned job,
// passes on their reports, watches that they make progress, and comes back as a new incarnation if
// a rank is lost. It survives its ranks and the coordinator's absence. pool_supervisor.h decides
// what it does when; this is the shell around it.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/http/server.h"
#include "common/io/filesystem.h"
#include "common/io/slow_operations.h"
#include "common/logging/logging.h"
#include "common/rpc/executor.h"
#include "common/rpc/user_tokens.h"
#include "longhaul/v1/pool.pb.h"
#include "worker/agent/agent_metrics.h"
#include "worker/agent/agent_options.h"
#include "worker/agent/incarnation_record.h"
#include "worker/agent/log_server.h"
#include "worker/agent/membership_client.h"
#include "worker/agent/node_ranks.h"
#include "worker/agent/pool_supervisor.h"
#include "worker/agent/pool_tracks.h"
#include "worker/agent/rank_report.h"
#include "worker/state/state_folders.h"

namespace longhaul {

class Agent {
 public:
  // From now on the agent joins the coordinator. Errors: those of RendezvousServer::Start and
  // HttpServer::Start; INVALID_ARGUMENT: other machines could read metrics although that is not
  // allowed, or a file of tokens cannot be used.
  static absl::StatusOr<std::unique_ptr<Agent>> Start(AgentOptions options);
  ~Agent();

  // Works until Drain has ended, or until the coordinator refuses this pool for good. Then returns
  // its status, see MembershipClient::OnRefused. Call on the main thread, since the ranks end with
  // the thread that started them.
  absl::Status Run();
  // The ranks finish their current step and send their contributions, within options.drain. Then
  // Run gives the lease back and returns. Thread-safe. Must not be called in a signal handler, but
  // in a thread that waits for signals.
  void Drain();
  // What stands still for at least so long, in words: this agent, or an operation of its disks.
  // Empty: nothing. Any thread; does not block.
  std::string Stands(absl::Duration at_least) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  explicit Agent(AgentOptions options);
  absl::Status PrepareRanks();
  absl::Status ServeHttp();
  void OpenRecord();
  void Join();

  struct Assigned {
    MembershipClient::State state;
  };
  struct Reported {
    uint64_t group;
    int rank;
    RankReport report;
  };
  struct Exited {
    uint64_t group;
    int rank;
    int code;
  };
  struct Refused {
    absl::Status status;
  };
  struct DrainAsked {};
  // Inner state of these jobs is of no use any more.
  struct JobsEnded {
    std::vector<std::string> jobs;
  };
  // Nobody has written theirs for long.
  struct JobsUnwritten {
    std::vector<std::string> jobs;
  };
  using Event =
      std::variant<Assigned, Reported, Exited, Refused, DrainAsked, JobsEnded, JobsUnwritten>;

  void Post(Event event) ABSL_LOCKS_EXCLUDED(mutex_);
  // How long Run has not turned. Zero before and after it.
  absl::Duration stalled_for() const ABSL_LOCKS_EXCLUDED(mutex_);
  // `turned`: InfiniteFuture, Run has ended.
  void Turned(absl::Time turned) ABSL_LOCKS_EXCLUDED(mutex_);
  // Empty: it is time for a tick.
  std::optional<Event> Next() ABSL_LOCKS_EXCLUDED(mutex_);
  void On(const Assigned& event);
  void On(const Reported& event);
  void On(const Exited& event);
  void On(const Refused& event);
  void On(const DrainAsked&);
  void On(const JobsEnded& event);
  void On(const JobsUnwritten& event);
  void RemoveState(const std::string& job, absl::string_view why);
  // Removes the inner state of jobs that ended without their ranks here, but not while these run.
  void RemoveEndedJobs();
  // The subject of the current ranks.
  MembershipClient::Subject Subject() const;
  void PassOn(const v1::HeartbeatRequest& report);

  void Perform(const PoolSupervisor::Actions& actions);
  void Do(const PoolSupervisor::StartRanks&);
  void Do(const PoolSupervisor::KillRanks& action);
  void Do(const PoolSupervisor::DrainRanks&);
  void Do(const PoolSupervisor::Rejoin& action);
  void Do(const PoolSupervisor::Done& action);

  const AgentOptions options_;

  // Main thread only.
  // The incarnation under which the ranks work.
  std::string incarnation_;
  // The assignment of the last answer.
  v1::Assignment assignment_;
  // The node's part in its group, as last received completely. With one node: all ranks.
  v1::NodePlace place_;
  // The last group of ranks that reported a failure, and the last that said what its last step is.
  uint64_t failed_group_ = 0, draining_group_ = 0;
  PoolSupervisor supervisor_;
  bool done_ = false;
  absl::Status refused_;
  const std::shared_ptr<SlowOperations> operations_;
  const std::unique_ptr<FileSystem> posix_, fs_;
  // Jobs that have ended, whose inner state is to be removed.
  std::vector<std::string> ended_jobs_;

  mutable absl::Mutex mutex_;
  std::deque<Event> events_ ABSL_GUARDED_BY(mutex_);
  absl::Time turned_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();

  // Main thread only.
  std::unique_ptr<NodeRanks> ranks_;
  PoolTracks tracks_;
  AgentMetrics metrics_;
  std::unique_ptr<Tokens> tokens_;
  std::unique_ptr<HttpServer> http_;
  // The thread of membership_ writes it.
  std::optional<IncarnationRecord> record_;
  // Only `chores_` use it.
  UnwrittenJobs unwritten_;
  // What is done in --state-dir, where the disk may hang.
  Executor chores_{{.threads = 1, .queue_max = 64}};
  std::unique_ptr<MembershipClient> membership_;
  std::unique_ptr<LogServer> log_server_;
};

}  // namespace longhaul
