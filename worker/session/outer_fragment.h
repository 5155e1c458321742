// The data plane of one fragment on one rank: the outer parameters of the blocks that the rank
// owns, and what is under way: a contribution (FragmentCoder) and a downlink. In host memory: owned
// elements x 4 B outer, and while a round is under way what its downlink makes; what the coder
// takes is said there. SpareBuffers hands the memory on.
//
// A round:  TakeSnapshot (training thread) -> Encode (background; bytes are kept until the merge)
//           BeginDownlink, StageDownlink (background; decoded as the chunks come and verified,
//           beside the outer parameters) -> Merge (training thread)
// Only Merge changes the outer parameters, and in a round the error feedback: an aborted one leaves no
// trace.
//
// Thread-safe: one mutex, held for the length of a call. No call waits for the network.
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
    const Codec* up = nullptr;  // Outlive the object.
    const Codec* down = nullptr;
    const Codec* exact = nullptr;  // fp32: seeds and whole fragments.
    bool error_feedback = false;
    // Codes where the replica trains (Replica::DeviceParameters). Null: in host memory.
    std::shared_ptr<DeviceCodec> device = nullptr;
    Logger log = Logger({});
    std::shared_ptr<SpareBuffers> spare = nullptr;  // Shared by fragments. Null: its own.
    ThreadTeam* team = nullptr;  // Merges. Outlives the object. Null: the calling thread alone.
  };
  OuterFragment(FragmentMap map, Options options);

  const FragmentMap& map() const { return map_; }

  // Copies the live parameters of the owned blocks. Training thread.
  absl::Status TakeSnapshot(Replica& replica);
  // Codes the snapshot (SEED: exactly as it is; else outer - snapshot, plus the error feedback),
  // drops it and keeps the bytes until Merge. Without a snapshot: the bytes that are kept, or null.
  // INVALID_ARGUMENT: a NaN or Inf, with its place.
  // `noise_key`: of a stochastic codec; the same for all ranks of the pool, another in each round.
  absl::StatusOr<std::shared_ptr<const CodedContribution>> Encode(RoundKind kind,
                                                                  uint64_t noise_key = 0);
  // What a pull of the whole fragment is decoded into, and the outer parameters taken from it, once
  // it is verified. With the base replaced, what was lost before it no longer counts.
  PulledParameters BeginWhole() const;
  void LoadWhole(PulledParameters pulled);
  // What the downlink of `version` is decoded into, beside the outer parameters to which it is
  // added. Nothing: it is staged already (its answer was lost with a connection).
  // FAILED_PRECONDITION: another one was not merged yet.
  absl::StatusOr<std::optional<PulledParameters>> BeginDownlink(int64_t version) const;
  // Keeps the result, once it is verified (invariant 1), for Merge; again is OK.
  // FAILED_PRECONDITION: as above.
  absl::Status StageDownlink(int64_t version, PulledParameters pulled);

  // outer = the staged parameters; live = alpha * live + (1 - alpha) * outer; the kept bytes are
  // dropped. `contributed`: they counted, so the error feedback advances. The caller publishes the
  // units afterwards. Training thread.
  absl::Status Merge(Replica& replica, double alpha, bool contributed);
  // live = outer. Training thread.
  absl::Status Install(Replica& replica);
  // Copies the owned live parameters out, or back in, around an evaluation. Training thread.
  absl::Status SaveLive(Replica& replica);
  absl::Status RestoreLive(Replica& replica);

  // The error feedback as it counts, of all owned elements, to be saved and put back. Any thread, not
  // beside Merge.
  bool has_feedback() const { return options_.error_feedback; }
  absl::Status ReadFeedback(absl::Span<float> out) const;
  absl::Status WriteFeedback(absl::Span<const float> values);
  // Nothing is owed any more.
  void ForgetFeedback();

  // For observers.
  std::vector<float> outer() const;

 private:
  void SetOuter(std::vector<float> values) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const FragmentMap map_;
  const Options options_;
  const std::shared_ptr<SpareBuffers> spare_;
  mutable absl::Mutex mutex_;
  // Replaced, never changed: a pull may still read what a merge replaced.
  std::shared_ptr<std::vector<float>> outer_ ABSL_GUARDED_BY(mutex_);
  const std::unique_ptr<FragmentCoder> coder_ ABSL_PT_GUARDED_BY(mutex_);
  std::vector<float> staged_ ABSL_GUARDED_BY(mutex_);
  std::optional<int64_t> staged_version_ ABSL_GUARDED_BY(mutex_);
  std::vector<float> saved_live_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const CodedContribution> kept_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul::session
