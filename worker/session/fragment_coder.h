// Makes one rank's contributions to a fragment: the snapshot of its live parameters, the uplink's
// error feedback, and the coding. Two implementations give the same bytes: one in host memory
// (HostFragmentCoder), one on the device that trains (DeviceFragmentCoder).
//
// A round:  TakeSnapshot (training thread) -> Code (background) -> Commit (training thread)
// Only Commit, Reset and WriteFeedback change the error feedback. So an aborted round changes
// nothing.
//
// Externally synchronised. No call waits for the network.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/blocks/coded_blocks.h"
#include "common/codec/codec.h"
#include "common/schedule/round_kind.h"
#include "worker/replica/replica.h"
#include "worker/session/fragment_map.h"
#include "worker/session/spare_buffers.h"

namespace longhaul::session {

// A rank's coded blocks of one contribution.
struct CodedContribution {
  RoundKind kind = RoundKind::kOuter;
  // Of the pool in the mean.
  int64_t weight = 1;
  CodedBlocks blocks;
  // The codec's normalized mean squared error on these blocks.
  double nmse = 0;
  // L2 norm of the error feedback after this contribution, if it counts.
  double feedback_norm = 0;
};

class FragmentCoder {
 public:
  struct Options {
    // These outlive the object. `exact` is fp32, for seeds.
    const FragmentMap* map = nullptr;
    const Codec* up = nullptr;
    const Codec* exact = nullptr;
    bool error_feedback = false;
    // Null: the object makes one.
    std::shared_ptr<SpareBuffers> spare = nullptr;
  };
  virtual ~FragmentCoder() = default;

  // Copies the live parameters of the owned blocks. Replaces an older snapshot.
  virtual absl::Status TakeSnapshot(Replica& replica) = 0;
  virtual bool has_snapshot() const = 0;

  // Codes the snapshot, and drops it. kSeed: the snapshot, exactly. Otherwise: outer - snapshot +
  // error feedback. `outer` are the outer parameters, map->elements() of them. INVALID_ARGUMENT: a
  // value is NaN or Inf; the message names the place. INTERNAL: the device failed.
  virtual absl::StatusOr<std::shared_ptr<CodedContribution>> Code(
      RoundKind kind, uint64_t noise_key, absl::Span<const float> outer) = 0;

  // Ends the round. `contributed`: the contribution counted, so its coding error becomes the error
  // feedback; unless nothing was coded, since then that of an earlier start of the pool counted.
  virtual void Commit(bool contributed) = 0;
  // Sets the error feedback to zero, because the outer parameters were replaced.
  virtual void Reset() = 0;

  // The error feedback, to be saved and restored: map->elements() values. Only with
  // Options::error_feedback. Errors: those of the device.
  virtual absl::Status ReadFeedback(absl::Span<float> out) = 0;
  virtual absl::Status WriteFeedback(absl::Span<const float> values) = 0;
};

}  // namespace longhaul::session
