// The data plane of one fragment on one rank: the outer parameters of the blocks that the rank
// owns, and the current round's contribution (FragmentCoder) and downlink. It takes 4 B of host
// memory for each owned element, and another 4 B between a pull and its merge; the coder takes
// more, see there. SpareBuffers reuses the memory.
//
// A round:  TakeSnapshot (training thread) -> Encode (background; bytes are kept until the merge)
//           BeginDownlink, StageDownlink (background; decoded as the chunks come and verified,
//           beside the outer parameters) -> Merge (training thread)
// In a round, only Merge changes the outer parameters and the error feedback. So an aborted round
// changes nothing.
//
// Thread-safe: one mutex, held for the length of a call. No call waits for the network. Errors,
// where not said otherwise: those of the replica.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/base/thread_team.h"
#include "common/codec/codec.h"
#include "common/codec/cuda/device_codec.h"
#include "common/logging/logging.h"
#include "common/schedule/round_kind.h"
#include "worker/session/fragment_coder.h"
#include "worker/session/fragment_map.h"
#include "worker/session/pulled_parameters.h"
#include "worker/session/spare_buffers.h"

namespace longhaul::session {

class OuterFragment {
 public:
  struct Options {
    // These outlive the object. `exact` is fp32, for seeds and whole fragments.
    const Codec* up = nullptr;
    const Codec* down = nullptr;
    const Codec* exact = nullptr;
    bool error_feedback = false;
    // Codes contributions on the device where the replica trains (Replica::DeviceParameters). Null:
    // on the host.
    std::shared_ptr<DeviceCodec> device = nullptr;
    Logger log = Logger({});
    // Shared by the fragments of a rank. Null: the object makes one.
    std::shared_ptr<SpareBuffers> spare = nullptr;
    // Computes merges, and outlives the object. Null: the calling thread does.
    ThreadTeam* team = nullptr;
  };
  OuterFragment(FragmentMap map, Options options);

  const FragmentMap& map() const { return map_; }

  // The round to which a snapshot contributes.
  struct Round {
    int64_t version = 0;
    RoundKind kind = RoundKind::kOuter;
    // Of the pool in the mean.
    int64_t weight = 1;
    // See NoiseKeyOf. Only stochastic codecs use it.
    uint64_t noise_key = 0;
  };
  // Copies the live parameters of the owned blocks. Training thread.
  absl::Status TakeSnapshot(Replica& replica, const Round& round);
  // Codes the snapshot (FragmentCoder::Code), drops it, and keeps the bytes until Merge. Without a
  // snapshot it returns the kept bytes, or null if there are none. Null, too, if the newest
  // snapshot is of another version: a push that was late must not code or send it. Errors: those of
  // FragmentCoder::Code.
  absl::StatusOr<std::shared_ptr<const CodedContribution>> Encode(int64_t version);
  // Returns the target that a pull of the whole fragment is decoded into.
  PulledParameters BeginWhole() const;
  // Replaces the outer parameters with a verified pull of `version`, sets the error feedback to
  // zero, and drops the kept bytes and a staged downlink.
  void LoadWhole(int64_t version, PulledParameters pulled);
  // Returns the target that the downlink of `version` is decoded into: a copy of the outer
  // parameters to which it is added. Empty: that version is staged already (the answer was lost
  // with a connection). FAILED_PRECONDITION: another version is staged and not merged.
  absl::StatusOr<std::optional<PulledParameters>> BeginDownlink(int64_t version) const;
  // Keeps a verified result (invariant 1 of the protocol) for Merge. Does nothing if it is kept
  // already, or if the whole fragment was loaded at that version or a later one meanwhile.
  // FAILED_PRECONDITION: as above.
  absl::Status StageDownlink(int64_t version, PulledParameters pulled);

  // outer = the staged parameters; live = alpha * live + (1 - alpha) * outer. Drops the kept bytes.
  // `contributed`: they counted, so the error feedback advances. The caller publishes the units
  // afterwards. Requires a staged downlink. Training thread.
  absl::Status Merge(Replica& replica, double alpha, bool contributed);
  // live = outer. Training thread.
  absl::Status Install(Replica& replica);
  // Copy the owned live parameters out, and back in, around an evaluation. Training thread.
  absl::Status SaveLive(Replica& replica);
  absl::Status RestoreLive(Replica& replica);

  // The error feedback of all owned elements, to be saved and restored. On any thread, but not
  // during Merge.
  bool has_feedback() const { return options_.error_feedback; }
  absl::Status ReadFeedback(absl::Span<float> out) const;
  absl::Status WriteFeedback(absl::Span<const float> values);
  // Sets the error feedback to zero.
  void ForgetFeedback();

  // A copy of the outer parameters, for observers.
  std::vector<float> outer() const;

 private:
  void SetOuter(std::vector<float> values) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const FragmentMap map_;
  const Options options_;
  const std::shared_ptr<SpareBuffers> spare_;
  mutable absl::Mutex mutex_;
  // A merge replaces the vector and never changes it, since a pull may still read it.
  std::shared_ptr<std::vector<float>> outer_ ABSL_GUARDED_BY(mutex_);
  const std::unique_ptr<FragmentCoder> coder_ ABSL_PT_GUARDED_BY(mutex_);
  std::vector<float> staged_ ABSL_GUARDED_BY(mutex_);
  std::optional<int64_t> staged_version_ ABSL_GUARDED_BY(mutex_);
  // The version at which the whole fragment was loaded.
  int64_t loaded_version_ ABSL_GUARDED_BY(mutex_) = -1;
  std::vector<float> saved_live_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const CodedContribution> kept_ ABSL_GUARDED_BY(mutex_);
  // Of the newest snapshot.
  Round round_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul::session
