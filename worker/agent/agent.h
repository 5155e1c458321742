// The agent of a node: holds the pool's lease, starts the rank processes of the assigned job,
// passes on what they report, and comes back as a new incarnation when a rank is lost. It survives
// its ranks and the coordinator's absence.
//
//   heartbeat --assignment--> start ranks --reports--> heartbeat
//   a rank is lost --> stop the others --> rejoin
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/logging/logging.h"
#include "common/rpc/tls.h"
#include "longhaul/v1/pool.pb.h"
#include "worker/agent/membership_client.h"
#include "worker/agent/rank_process.h"

namespace longhaul {

class TcpRendezvousServer;

class Agent {
 public:
  struct Options {
    std::string coordinator, pool;
    std::string host;  // Of this machine, for people.
    int ranks = 1;
    v1::Device device = v1::CPU;
    int threads = 0;                 // Of each rank.
    int bulk_channels = 0;           // Of each rank. 0: by link_mbps and the round trip.
    double link_mbps = 1000;         // Between the pool and the coordinator; all ranks share it.
    std::shared_ptr<const Tls> tls;  // Null: plaintext.
    TlsFiles tls_files;              // What tls was made of, for the ranks.
    std::string data_dir;      // Relative data paths of jobs begin here. Empty: the current folder.
    std::string rank_program;  // Path of longhaul-rank.
    std::string log_level = "info";  // Of the ranks.
    Logger log = Logger({});
    absl::Duration heartbeat = absl::Milliseconds(500);
  };
  explicit Agent(Options options);
  ~Agent();

  // Works until Stop. Call on the main thread: the ranks end with the thread that started them.
  void Run();
  // Thread-safe. Not from a signal handler: from a thread that waits for signals.
  void Stop();

 private:
  struct Assigned {
    std::string incarnation;
    v1::Assignment assignment;
  };
  struct Reported {
    uint64_t group;
    v1::HeartbeatRequest report;
  };
  struct Exited {
    uint64_t group;
    int rank;
    int code;
  };
  struct Stopped {};
  using Event = std::variant<Assigned, Reported, Exited, Stopped>;

  void Post(Event event) ABSL_LOCKS_EXCLUDED(mutex_);
  Event Next() ABSL_LOCKS_EXCLUDED(mutex_);
  void On(const Assigned& event);
  void On(const Reported& event);
  void On(const Exited& event);
  void On(const Stopped&) {}

  absl::Status StartRanks();
  void ChooseBulkChannels();
  RankProcess::Options RankOptions(int rank) const;
  void StopRanks();
  void Lose(const std::string& reason);

  const Options options_;

  // Main thread only.
  std::string incarnation_;
  v1::Assignment assignment_;
  uint64_t group_ = 0;  // Counts groups of ranks: events of earlier ones are ignored.
  std::unique_ptr<TcpRendezvousServer> rendezvous_;
  std::string rendezvous_token_;
  std::vector<std::unique_ptr<RankProcess>> ranks_;
  double push_bytes_per_second_ = 0;  // What a rank's pushes are held to. 0: nothing.
  int bulk_channels_ = 0;             // 0: not chosen yet.
  int losses_ = 0;                    // In a row, without progress between them.

  absl::Mutex mutex_;
  std::deque<Event> events_ ABSL_GUARDED_BY(mutex_);

  std::unique_ptr<MembershipClient> membership_;
};

}  // namespace longhaul
