// The rank processes of this node: their command lines, where they meet the pool's other ranks,
// their log lines, how they end. All of them are started and ended together.
//
// Used by one thread, which must live as long as the ranks should (RankProcess::Start). The
// functions of the handler are called on threads of the processes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "longhaul/v1/pool.pb.h"
#include "worker/agent/agent_options.h"
#include "worker/agent/rank_process.h"
#include "worker/agent/rank_report.h"

namespace longhaul {

class RendezvousServer;

class NodeRanks {
 public:
  // What the ranks work on, and their place in the pool.
  struct Work {
    std::string incarnation;
    v1::Assignment assignment;
    // With one node: all ranks.
    v1::NodePlace place;
  };
  // `group`: that in which the rank was started. `rank`: its number in this node.
  struct Handler {
    std::function<void(uint64_t group, int rank, const RankReport& report)> on_report;
    // RankExit, or 128 + signal.
    std::function<void(uint64_t group, int rank, int code)> on_exit;
    // Blocks. Asked once, if the number of bulk channels is to be chosen.
    std::function<absl::StatusOr<absl::Duration>()> round_trip;
  };
  // `options` outlive the object. Errors: those of RendezvousServer::Start.
  static absl::StatusOr<std::unique_ptr<NodeRanks>> Create(const AgentOptions& options,
                                                           Handler handler);
  // Ends them.
  ~NodeRanks();

  // What the coordinator must know so that other nodes find the rendezvous of this one. Nothing if
  // this is the only node.
  void DescribeMeeting(v1::JoinRequest& request) const;

  // The ranks end first. Errors: those of the system; of StartGeneration; of ReadTlsFiles, since
  // the agent's own connections may still use files that were good.
  absl::Status Start(const Work& work);
  // Kills them, and blocks until they have ended. One that the system does not end within ten
  // seconds is left alone.
  void End();
  // Sends a signal to each.
  void Signal(int signal);

  // Counts groups of ranks, from 1. What ranks of earlier groups report does not count.
  uint64_t group() const { return group_; }
  pid_t pid(int rank) const { return ranks_[rank]->pid(); }

 private:
  NodeRanks(const AgentOptions& options, Handler handler, std::string token,
            std::unique_ptr<RendezvousServer> rendezvous);
  void ChooseBulkChannels(int ranks_of_pool);
  // Refuses ranks of the last group that come late. Returns the part of the processes' options that
  // tells where they meet.
  absl::StatusOr<RankProcess::Options> PrepareMeeting(const Work& work);
  RankProcess::Options OptionsOf(int rank, const Work& work, RankProcess::Options meeting) const;
  // Takes a rank's log lines. Empty if lines are not kept.
  std::function<void(absl::string_view)> KeepLine(int rank_of_pool) const;

  const AgentOptions& options_;
  const Handler handler_;
  // The rendezvous of each group's ranks, if this is node 0. Null in a pool of one rank.
  const std::string token_;
  const std::unique_ptr<RendezvousServer> rendezvous_;
  uint64_t group_ = 0;
  // 0: not chosen yet.
  int bulk_channels_;
  // The limit for a rank's pushes. 0: none.
  double push_bytes_per_second_ = 0;
  std::vector<std::unique_ptr<RankProcess>> ranks_;
};

}  // namespace longhaul
