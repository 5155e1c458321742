// One rank's exchange with the coordinator, around its training: the shell of session/core. The
// training thread calls Run. Pushes and pulls (fragment_exchange.h) and the WatchPlan stream
// (plan_watcher.h) have threads of their own. They delay training only where a merge is due.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/thread_team.h"
#include "common/logging/logging.h"
#include "common/rpc/tls.h"
#include "longhaul/v1/job.pb.h"
#include "worker/replica/replica.h"
#include "worker/session/core/action.h"
#include "worker/session/session_observer.h"
#include "worker/state/state_keeper.h"

namespace longhaul {
class DeviceCodec;
}

namespace longhaul::session {

// How a session ended.
struct Outcome {
  enum class Kind {
    // The job has ended, or this pool's part of it, or the pool was asked to stop.
    kFinished,
    // This incarnation cannot go on. The pool should come back as a new one.
    kRestart,
    // `status` is the error, and `origin` what failed.
    kFailed,
  };
  enum class Origin { kTraining, kContribution, kPlan };
  Kind kind = Kind::kFinished;
  // kFinished: how much of the job was done.
  Extent done = Extent::kNothing;
  Origin origin = Origin::kTraining;
  absl::Status status;
  std::string reason;
};

class RankSession {
 public:
  struct Options {
    // host:port
    std::string coordinator;
    std::string job, pool, incarnation;
    // See FragmentExchange.
    uint64_t noise_seed = 0;
    // Null: plaintext.
    std::shared_ptr<const Tls> tls;
    int bulk_channels = 1;
    // A limit for the pushes of this rank. 0: none.
    double push_bytes_per_second = 0;
    // See Evaluations.
    int64_t evaluation_steps_max = 0;
    // What the rank noticed about its data, for the coordinator to tell.
    std::vector<v1::DataWarning> data_warnings = {};
    // Codes contributions on the device that the replica trains on. Null: the host does.
    std::shared_ptr<DeviceCodec> device_codec = nullptr;
    // Computes merges, and outlives the object. Null: the training thread does.
    ThreadTeam* team = nullptr;
    // Options of the StateKeeper. The session sets its log, owner and life.
    StateKeeper::Options inner_state;
    Logger log = Logger({});
    SessionObserver observer;
  };
  // `replica` outlives the object.
  RankSession(Options options, Replica* replica);
  ~RankSession();

  // Trains until the job ends. Call once, on the training thread. Blocks.
  Outcome Run();
  // Makes Run return with kFinished. First the ranks of the pool agree on their last step, which
  // takes about a second or one step, and their pushes are completed. Ask every rank of the pool.
  // Thread-safe. Does not block.
  void Drain();
  // Makes Run return soon, with kFinished and the reason. A collective that waits for a peer does
  // not end by it: abort the communicator for that. Thread-safe. Does not block.
  void Stop(const std::string& reason);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace longhaul::session
