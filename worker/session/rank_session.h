// One rank's exchange with the coordinator, around its training: the shell of session/core. The
// training thread calls Run; pushes, pulls and the WatchPlan stream have threads of their own, and
// delay training only where a merge is due.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/named_value.h"
#include "common/base/thread_team.h"
#include "common/logging/logging.h"
#include "common/rpc/tls.h"
#include "worker/replica/replica.h"
#include "worker/session/core/action.h"
#include "worker/state/state_keeper.h"

namespace longhaul {
class DeviceCodec;
}

namespace longhaul::session {

// How far a rank is. Seconds are of the training thread and add up to its time since it first
// trained.
struct Progress {
  int64_t inner_step = 0;
  // The pool was asked to stop, and inner_step is the last.
  bool draining = false;
  int64_t tokens = 0;
  int64_t skipped_steps = 0;  // Their gradient was not finite.
  // Of the newest step.
  double train_loss = 0, gradient_norm = 0, learning_rate = 0;
  // Since training began, without evaluations (their time, and the steps beside which they ran) and
  // with them.
  double tokens_per_second = 0, tokens_per_second_with_evaluation = 0;
  double compute_seconds = 0;
  double exposed_wait_seconds = 0;
  double sync_seconds = 0;  // Snapshots, merges, publishing.
  double eval_seconds = 0;  // Training stood still for an evaluation.
  double uplink_nmse = 0;   // Of the newest contribution.
  double error_feedback_norm = 0;
  InPoolTraffic received;                       // Since it first trained.
  double weights_nmse = 0, gradients_nmse = 0;  // Of the newest step; see StepStats.
  StateReport inner_state;
};

struct EvaluationResult {
  int64_t step = 0, version = 0;
  double loss = 0;
  int64_t tokens = 0;
  bool final = false;
  bool of_pool = false;  // Of its own parameters.
  std::vector<NamedValue> metrics;
};

// What a merge made, for observers (sync_vectors). `outer`: the fragment's owned blocks.
struct MergeRecord {
  int fragment = 0;
  int64_t version = 0, step = 0;
  std::vector<float> outer;
};

// Called on the training thread; must be quick. Each may be empty.
struct SessionObserver {
  std::function<void(const Progress&)> on_progress;  // After every step and at the end.
  std::function<void(const EvaluationResult&)> on_evaluation;
  std::function<void(const MergeRecord&)> on_merge;
  // What it waits for from the coordinator; empty: nothing any more.
  std::function<void(const std::string&)> on_wait;
};

struct Outcome {
  enum class Kind {
    kFinished,  // The job has ended, or this pool's part of it, or it was asked to stop.
    kRestart,   // This incarnation cannot go on; the pool should come back as a new one.
    kFailed,    // `status` arose where `place` says.
  };
  enum class Place { kTraining, kContribution, kPlan };
  Kind kind = Kind::kFinished;
  // kFinished: what was done.
  Extent done = Extent::kNothing;
  Place place = Place::kTraining;
  absl::Status status;
  std::string reason;
};

class RankSession {
 public:
  struct Options {
    std::string coordinator;  // host:port
    std::string job, pool, incarnation;
    std::shared_ptr<const Tls> tls;  // Null: plaintext.
    int bulk_channels = 1;
    double push_bytes_per_second = 0;  // What pushes are held to. 0: nothing.
    int64_t evaluation_steps_max = 0;  // See Evaluations.
    // Codes contributions on the device that the replica trains on. Null: the host does.
    std::shared_ptr<DeviceCodec> device_codec = nullptr;
    ThreadTeam* team = nullptr;  // Merges. Outlives the object. Null: the training thread alone.
    // What StateKeeper is told, but for its log, the pool and job, and the life.
    StateKeeper::Options inner_state;
    Logger log = Logger({});
    SessionObserver observer;
  };
  // `replica` outlives the object.
  RankSession(Options options, Replica* replica);
  ~RankSession();

  // Trains until the job ends. Call once, on the training thread. Blocks.
  Outcome Run();
  // Makes Run return, with kFinished, once the ranks of the pool agree that they have done their
  // last step, within about a second or one step, and what was pushed is at the coordinator. All
  // ranks of the pool are to be asked. Thread-safe.
  void Drain();
  // Makes Run return soon, with kFinished and the reason. Thread-safe. A collective that waits for
  // a peer is not ended by it: abort the communicator for that.
  void Stop(const std::string& reason);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace longhaul::session
