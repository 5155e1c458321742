// The agent of a node: holds the pool's lease, starts the rank processes of the assigned job,
// passes on their reports, watches that they make progress, and comes back as a new incarnation if
// a rank is lost. It survives its ranks and the coordinator's absence. pool_supervisor.h decides
// what it does when; this is the shell around it.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/http/server.h"
#include "common/io/filesystem.h"
#include "common/logging/logging.h"
#include "common/rpc/tls.h"
#include "common/rpc/user_tokens.h"
#include "longhaul/v1/pool.pb.h"
#include "worker/agent/agent_metrics.h"
#include "worker/agent/log_ring.h"
#include "worker/agent/log_server.h"
#include "worker/agent/membership_client.h"
#include "worker/agent/pool_supervisor.h"
#include "worker/agent/pool_tracks.h"
#include "worker/agent/rank_process.h"
#include "worker/cores/rank_cores.h"

namespace longhaul {

class RendezvousServer;

class Agent {
 public:
  struct Options {
    std::string coordinator, pool;
    // The name of this machine, for people.
    std::string host;
    // HOST:PORT of /metrics, /healthz, /readyz. Empty: they are not served.
    std::string http_listen;
    // The file of users' tokens (common/rpc/user_tokens.h). Every user in it may read metrics.
    // Empty: none.
    std::string tokens_file;
    // Other machines may read the pages without a token.
    bool insecure = false;
    // Ranks of this node.
    int ranks = 1;
    // Nodes of the pool.
    int nodes = 1;

    // --- For pools of several nodes.

    // The number of this node. Empty: the coordinator gives one.
    std::optional<int> node;
    // Numeric. The other nodes reach this one there.
    std::string in_pool_address;
    // The name of the network interface that has the address.
    std::string in_pool_interface;
    // The name in the nodes' certificates. Empty without TLS.
    std::string in_pool_name;
    // For the pool's rendezvous.
    bool allow_plaintext_beyond_localhost = false;

    // --- For all pools.

    v1::Device device = v1::CPU;
    // By rank of this node. A rank without an entry has one thread, on any core.
    std::vector<RankCores> cores;
    // For each rank. 0: chosen from link_mbps and the round trip.
    int bulk_channels = 0;
    // Between the pool and the coordinator. All ranks of the pool share it.
    double link_mbps = 1000;
    // Null: plaintext.
    std::shared_ptr<const Tls> tls;
    // The files of `tls`, for the ranks.
    TlsFiles tls_files;
    // The beginning of the path of a timeline of each rank's engine; its number is appended. Empty:
    // none.
    std::string trace;
    // Folder of the curves of its jobs (PoolTracks). Empty: none.
    std::string track_dir;
    // A file that keeps measured rates of offloaded updates. Empty: none.
    std::string update_rates;
    // Folder of inner state (worker/state), and how often it is saved. Empty: it is not kept.
    std::string state_dir;
    absl::Duration state_every = absl::Minutes(1);
    // Relative data paths of jobs begin here. Empty: the current folder.
    std::string data_dir;
    // Tokens that ranks make from text are kept here.
    std::string work_dir;
    // Path of longhaul-rank.
    std::string rank_program;
    // The ranks' log level.
    std::string log_level = "info";
    // The ranks' log format.
    std::string log_format = "auto";
    // Receives the ranks' log lines, which then also go to standard error, and serves them to
    // readers that the coordinator admits. Null: lines are not kept. Must outlive the agent.
    LogRing* log_ring = nullptr;
    Logger log = Logger({});
    absl::Duration heartbeat = absl::Milliseconds(500);
    ProgressLimits progress;
    // After Drain: how long pushes in progress may take.
    absl::Duration drain = absl::Seconds(30);
    // How long the pool's place should be kept.
    absl::Duration return_within = absl::Minutes(10);
    // See JoinRequest.
    std::vector<std::string> capabilities;
  };
  // From now on the agent joins the coordinator. Errors: those of RendezvousServer::Start and
  // HttpServer::Start; INVALID_ARGUMENT: other machines could read metrics although that is not
  // allowed, or a file of tokens cannot be used.
  static absl::StatusOr<std::unique_ptr<Agent>> Start(Options options);
  ~Agent();

  // Works until Drain has ended, or until the coordinator refuses this pool for good. Then returns
  // its status, see MembershipClient::OnRefused. Call on the main thread, since the ranks end with
  // the thread that started them.
  absl::Status Run();
  // The ranks finish their current step and send what they owe, within options.drain. Then Run
  // gives the lease back and returns. Thread-safe. Must not be called in a signal handler, but in a
  // thread that waits for signals.
  void Drain();

 private:
  Agent(Options options, std::string token, std::unique_ptr<RendezvousServer> rendezvous);
  absl::Status ServeHttp();
  void Join();

  struct Assigned {
    MembershipClient::Standing standing;
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
  using Event = std::variant<Assigned, Reported, Exited, Refused, DrainAsked, JobsEnded>;

  void Post(Event event) ABSL_LOCKS_EXCLUDED(mutex_);
  // Empty: it is time for a tick.
  std::optional<Event> Next() ABSL_LOCKS_EXCLUDED(mutex_);
  void On(const Assigned& event);
  void On(const Reported& event);
  void On(const Exited& event);
  void On(const Refused& event);
  void On(const DrainAsked&);
  void On(const JobsEnded& event);
  // Removes the inner state of jobs that ended without their ranks here, but not while these run.
  void RemoveEndedJobs();
  // The subject of the current ranks.
  MembershipClient::Subject Subject() const;
  void PassOn(const v1::HeartbeatRequest& report);

  void Perform(const PoolSupervisor::Actions& actions);
  void Do(const PoolSupervisor::StartRanks&);
  void Do(const PoolSupervisor::KillRanks&);
  void Do(const PoolSupervisor::DrainRanks&);
  void Do(const PoolSupervisor::Rejoin& action);
  void Do(const PoolSupervisor::Done& action);
  absl::Status StartRanks();
  // Refuses ranks of the last group that come late. Returns the part of RankOptions' result that
  // tells the new ranks where they meet.
  absl::StatusOr<RankProcess::Options> PrepareMeeting();
  // Takes a rank's log lines. Empty if lines are not kept.
  std::function<void(absl::string_view)> KeepLine(int rank) const;
  void ChooseBulkChannels();
  RankProcess::Options RankOptions(int local_rank, RankProcess::Options meeting) const;

  const Options options_;

  // Main thread only.
  // The incarnation under which the ranks work.
  std::string incarnation_;
  // The assignment of the last answer.
  v1::Assignment assignment_;
  // The node's part in its group, as last received completely. With one node: all ranks.
  v1::NodePlace place_;
  // Counts groups of ranks. Events of earlier groups are ignored.
  uint64_t group_ = 0;
  // The last group that reported a failure. Groups count from 1.
  uint64_t failed_group_ = 0;
  // The rendezvous of each group's ranks, if this is node 0. Null in a pool of one rank.
  const std::string rendezvous_token_;
  const std::unique_ptr<RendezvousServer> rendezvous_;
  std::vector<std::unique_ptr<RankProcess>> ranks_;
  // The limit for a rank's pushes. 0: none.
  double push_bytes_per_second_ = 0;
  // 0: not chosen yet.
  int bulk_channels_ = 0;
  PoolSupervisor supervisor_;
  bool done_ = false;
  absl::Status refused_;
  const std::unique_ptr<FileSystem> fs_;
  // Jobs that have ended, whose inner state is to be removed.
  std::vector<std::string> ended_jobs_;

  absl::Mutex mutex_;
  std::deque<Event> events_ ABSL_GUARDED_BY(mutex_);

  PoolTracks tracks_;
  AgentMetrics metrics_;
  std::unique_ptr<Tokens> tokens_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<MembershipClient> membership_;
  std::unique_ptr<LogServer> log_server_;
};

}  // namespace longhaul
