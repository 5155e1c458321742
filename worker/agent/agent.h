// The agent of a node: holds the pool's lease, starts the rank processes of the assigned job,
// passes on what they report, watches that they get on, and comes back as a new incarnation when a
// rank is lost. It survives its ranks and the coordinator's absence. What it does when is decided
// in pool_supervisor.h; this is the shell around it.
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
#include "common/logging/logging.h"
#include "common/rpc/tls.h"
#include "longhaul/v1/pool.pb.h"
#include "worker/agent/agent_metrics.h"
#include "worker/agent/log_ring.h"
#include "worker/agent/log_server.h"
#include "worker/agent/membership_client.h"
#include "worker/agent/pool_supervisor.h"
#include "worker/agent/pool_tracks.h"
#include "worker/agent/rank_process.h"

namespace longhaul {

class RendezvousServer;

class Agent {
 public:
  struct Options {
    std::string coordinator, pool;
    std::string host;         // Of this machine, for people.
    std::string http_listen;  // HOST:PORT of /metrics, /healthz, /readyz. Empty: none.
    int ranks = 1;            // Of this node.
    int nodes = 1;            // Of the pool.

    // --- Where the pool has several nodes.

    std::optional<int> node;        // This one's number. Nothing: the coordinator gives one.
    std::string in_pool_address;    // Numeric; where the other nodes reach this one.
    std::string in_pool_interface;  // The name of the network interface that has it.
    std::string in_pool_name;       // What the nodes' certificates are for. Empty without TLS.
    bool allow_plaintext_beyond_localhost = false;  // Of the pool's rendezvous.

    // --- Of every node.

    v1::Device device = v1::CPU;
    int threads = 0;          // Of each rank.
    int bulk_channels = 0;    // Of each rank. 0: by link_mbps and the round trip.
    double link_mbps = 1000;  // Between the pool and the coordinator; all its ranks share it.
    std::shared_ptr<const Tls> tls;  // Null: plaintext.
    TlsFiles tls_files;              // What tls was made of, for the ranks.
    std::string trace;  // Path of a timeline of each rank's engine, less its number. Empty: none.
    // Folder of the curves of its jobs (PoolTracks). Empty: none.
    std::string track_dir;
    std::string update_rates;  // File that keeps measured rates of offloaded updates. Empty: none.
    std::string data_dir;      // Relative data paths of jobs begin here. Empty: the current folder.
    std::string work_dir;      // Tokens that ranks make of text are kept here.
    std::string rank_program;  // Path of longhaul-rank.
    std::string log_level = "info";   // Of the ranks.
    std::string log_format = "auto";  // Likewise.
    // Gets the ranks' lines, which then go to standard error too, and shows its lines to whom the
    // coordinator lets read them. Null: nobody keeps them. Must outlive the agent.
    LogRing* log_ring = nullptr;
    Logger log = Logger({});
    absl::Duration heartbeat = absl::Milliseconds(500);
    ProgressLimits progress;
    absl::Duration drain = absl::Seconds(30);          // For pushes under way, after Drain.
    absl::Duration return_within = absl::Minutes(10);  // The place is to be kept so long.
    std::vector<std::string> capabilities;             // See JoinRequest.
  };
  // Joins the coordinator from now on. Errors: those of RendezvousServer::Start and HttpServer::Start.
  static absl::StatusOr<std::unique_ptr<Agent>> Start(Options options);
  ~Agent();

  // Works until Drain has ended or the coordinator refuses this pool for good: then its status,
  // see MembershipClient::OnRefused. Call on the main thread: the ranks end with the thread that
  // started them.
  absl::Status Run();
  // The ranks finish the step that they are in and send what they owe, within options.drain; then
  // Run gives the lease back and returns. Thread-safe. Not from a signal handler: from a thread that
  // waits for signals.
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
  using Event = std::variant<Assigned, Reported, Exited, Refused, DrainAsked>;

  void Post(Event event) ABSL_LOCKS_EXCLUDED(mutex_);
  // Nothing: it is time for a tick.
  std::optional<Event> Next() ABSL_LOCKS_EXCLUDED(mutex_);
  void On(const Assigned& event);
  void On(const Reported& event);
  void On(const Exited& event);
  void On(const Refused& event);
  void On(const DrainAsked&);
  // Of the ranks at hand.
  MembershipClient::Subject Subject() const;
  void PassOn(const v1::HeartbeatRequest& report);

  void Perform(const PoolSupervisor::Actions& actions);
  void Do(const PoolSupervisor::StartRanks&);
  void Do(const PoolSupervisor::KillRanks&);
  void Do(const PoolSupervisor::DrainRanks&);
  void Do(const PoolSupervisor::Rejoin& action);
  void Do(const PoolSupervisor::Done& action);
  absl::Status StartRanks();
  // Ranks of the last group that come late are refused from now on. What tells these ranks where
  // they meet: a part of what RankOptions makes.
  absl::StatusOr<RankProcess::Options> PrepareMeeting();
  // What a rank's log lines are handed to. Empty: nobody keeps them.
  std::function<void(absl::string_view)> KeepLine() const;
  void ChooseBulkChannels();
  RankProcess::Options RankOptions(int local_rank, RankProcess::Options meeting) const;

  const Options options_;

  // Main thread only.
  std::string incarnation_;    // Under which the ranks work.
  v1::Assignment assignment_;  // The last answer's.
  // The node's part in its group, as last told in full. One node: all ranks.
  v1::NodePlace place_;
  uint64_t group_ = 0;         // Counts groups of ranks: events of earlier ones are ignored.
  uint64_t failed_group_ = 0;  // The last one that reported a failure. Groups count from 1.
  // Where the ranks of each group meet, if this is node 0. Null in a pool of one rank.
  const std::string rendezvous_token_;
  const std::unique_ptr<RendezvousServer> rendezvous_;
  std::vector<std::unique_ptr<RankProcess>> ranks_;
  double push_bytes_per_second_ = 0;  // What a rank's pushes are held to. 0: nothing.
  int bulk_channels_ = 0;             // 0: not chosen yet.
  PoolSupervisor supervisor_;
  bool done_ = false;
  absl::Status refused_;

  absl::Mutex mutex_;
  std::deque<Event> events_ ABSL_GUARDED_BY(mutex_);

  PoolTracks tracks_;
  AgentMetrics metrics_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<MembershipClient> membership_;
  std::unique_ptr<LogServer> log_server_;
};

}  // namespace longhaul
