// The background half of a rank's session: the fragments of which the rank owns blocks, and their
// coding, pushes and pulls beside training.
//
// A transfer belongs to the connection on which it was begun. When the connection is lost, its
// `stop` ends the transfer, which may still report. The owner must ignore such reports; the
// connection's number identifies them.
//
// Pulls and pushes have threads of their own, so that a push which waits for the coordinator delays
// no merge.
//
// Owns the fragments, their codecs, the bulk channels, and four threads. Thread-safe, except
// TakePlan. No call waits for the network: results come as events.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/base/thread_team.h"
#include "common/codec/codec.h"
#include "common/codec/cuda/device_codec.h"
#include "common/logging/logging.h"
#include "common/rpc/executor.h"
#include "common/schedule/round_kind.h"
#include "longhaul/v1/sync.pb.h"
#include "worker/replica/replica.h"
#include "worker/session/core/event.h"
#include "worker/session/outer_fragment.h"
#include "worker/session/spare_buffers.h"
#include "worker/session/transfers.h"

namespace longhaul::session {

class FragmentExchange {
 public:
  struct Options {
    Transfers::Options transfers;
    // train.seed: it selects the random numbers of stochastic rounding.
    uint64_t noise_seed = 0;
    // See OuterFragment::Options.
    std::shared_ptr<DeviceCodec> device_codec = nullptr;
    ThreadTeam* team = nullptr;
    Logger log = Logger({});
  };
  // One connection to the coordinator, until it is lost.
  struct Connection {
    uint64_t number = 0;
    std::stop_source stop;
  };
  // Called on the object's threads, without its lock.
  struct Handler {
    // What came of a transfer: PulledWhole, Pulled, PullRefused, PushDone or PushRefused.
    std::function<void(const Connection&, const Event&)> on_event;
    // A contribution could not be coded; see OuterFragment::Encode. The rank cannot go on.
    std::function<void(const absl::Status&)> on_fault;
  };
  // A rank's blocks of a fragment, for one version.
  struct Contribution {
    int fragment = 0;
    int64_t version = 0;
    // The inner step at which it is sent, for the coordinator's reports.
    int64_t inner_step = 0;
  };

  FragmentExchange(Options options, Handler handler);
  // Waits for every transfer that was begun. The caller has stopped the last connection.
  ~FragmentExchange() = default;

  // Makes the fragments, at the first plan, and learns who serves each one. On one thread at a
  // time; the first call before any other. INVALID_ARGUMENT: the plan contradicts the replica's
  // model or the first plan, or a codec of it is not valid.
  absl::Status TakePlan(const v1::Plan& plan, const Replica& replica);
  // Empty before the first plan; the same objects from then on. The training thread takes
  // snapshots, merges and installs on them by itself.
  const std::vector<std::unique_ptr<OuterFragment>>& fragments() const { return fragments_; }

  // See Transfers. Thread-safe.
  void Redial() { transfers_.Redial(); }

  // Takes the snapshot of a contribution (OuterFragment::TakeSnapshot) to the round of this kind
  // that makes this version. Training thread. Errors: those of the replica.
  absl::Status TakeSnapshot(Replica& replica, int fragment, int64_t version, RoundKind kind,
                            int64_t weight = 1);
  // All: the transfer goes on in the background. RESOURCE_EXHAUSTED: too many wait.

  // Sends the contribution's bytes. Codes the snapshot that the training thread has taken
  // (TakeSnapshot) first, unless an earlier call did. Reports nothing if there are neither bytes
  // nor a snapshot: the version was merged, the snapshot is of a later one, or it is not taken yet.
  absl::Status Push(const Connection& connection, const Contribution& contribution);
  // Replaces the outer parameters with the coordinator's newest.
  absl::Status PullWhole(const Connection& connection, int fragment);
  // Stages the downlink of a commit for OuterFragment::Merge.
  absl::Status Pull(const Connection& connection, int fragment, int64_t version);

  // Of the newest contribution, seeds excepted; see CodedContribution.
  struct UplinkQuality {
    double nmse = 0, feedback_norm = 0;
  };
  UplinkQuality uplink_quality() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void SendNow(const Connection& connection, const Contribution& contribution);
  void PullWholeNow(const Connection& connection, int fragment);
  absl::Status PullNow(const Connection& connection, int fragment, int64_t version);

  const Options options_;
  const Handler handler_;
  Transfers transfers_;
  std::unique_ptr<Codec> up_, down_, exact_;
  const std::shared_ptr<SpareBuffers> spare_ = std::make_shared<SpareBuffers>();
  std::vector<std::unique_ptr<OuterFragment>> fragments_;

  mutable absl::Mutex mutex_;
  UplinkQuality uplink_quality_ ABSL_GUARDED_BY(mutex_);

  // The last members: their threads use all others until they end.
  Executor pushes_, pulls_;
};

}  // namespace longhaul::session
