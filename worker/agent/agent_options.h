// What the agent of a node is told: by its flags, and by what it finds out about its machine
// (site.h). Pure values.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/io/slow_operations.h"
#include "common/logging/logging.h"
#include "common/rpc/tls.h"
#include "longhaul/v1/plan.pb.h"
#include "longhaul/v1/pool.pb.h"
#include "worker/agent/pool_supervisor.h"
#include "worker/cores/rank_cores.h"

namespace longhaul {

class LogRing;

struct AgentOptions {
  std::string coordinator, pool;
  // The name of this machine, for people.
  std::string host;
  // HOST:PORT of /metrics, /healthz, /readyz. Empty: they are not served.
  std::string http_listen;
  // The file of users' tokens (common/rpc/user_tokens.h). Every user in it may read metrics.
  // Empty: none.
  std::string tokens_file;
  // The HTTP port uses `tls`, too, and shows the same certificate.
  bool http_tls = false;
  // Other machines may read the pages without a token or without TLS.
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
  // Knows what the agent does on its disks. Null: the agent has its own.
  std::shared_ptr<SlowOperations> operations;
  absl::Duration heartbeat = absl::Milliseconds(500);
  ProgressLimits progress;
  // After Drain: how long pushes in progress may take.
  absl::Duration drain = absl::Seconds(30);
  // With no job for so long, the agent ends.
  absl::Duration exit_when_idle = absl::InfiniteDuration();
  // How long the pool's place should be kept.
  absl::Duration return_within = absl::Minutes(10);
  // See JoinRequest.
  std::vector<std::string> capabilities;
  // See FindMachineFigures. Empty: there are none.
  std::optional<v1::HostFigures> figures;
};

}  // namespace longhaul
