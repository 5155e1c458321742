// How a fragment's contributions are made on one rank: the snapshot of its live parameters, the
// uplink's error feedback, and the coding. Two implementations with the same bytes: in host memory
// (HostFragmentCoder), and on the device that trains (DeviceFragmentCoder).
//
// A round:  TakeSnapshot (training thread) -> Code (background) -> Commit (training thread)
// Only Commit, Reset and WriteFeedback change the error feedback: an aborted round leaves no trace.
//
// Externally synchronised; no call waits for the network.
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
  CodedBlocks blocks;
  double nmse = 0;  // Of the codec on these blocks.
  // L2 of the error feedback that this contribution leaves, if it counts.
  double feedback_norm = 0;
};

class FragmentCoder {
 public:
  struct Options {
    const FragmentMap* map = nullptr;  // All outlive the object.
    const Codec* up = nullptr;
    const Codec* exact = nullptr;  // fp32: seeds.
    bool error_feedback = false;
    std::shared_ptr<SpareBuffers> spare = nullptr;  // Null: its own.
  };
  virtual ~FragmentCoder() = default;

  // Copies the live parameters of the owned blocks, in place of an older snapshot.
  virtual absl::Status TakeSnapshot(Replica& replica) = 0;
  virtual bool has_snapshot() const = 0;

  // Codes the snapshot, which it drops: kSeed exactly as it is; else outer - snapshot, plus the
  // error feedback. `outer`: the outer parameters, as many as map->elements(). INVALID_ARGUMENT: a
  // NaN or Inf, with its place. UNAVAILABLE: the device failed.
  virtual absl::StatusOr<std::shared_ptr<CodedContribution>> Code(
      RoundKind kind, uint64_t noise_key, absl::Span<const float> outer) = 0;

  // The round is over. `contributed`: what Code left as error feedback counts from now on.
  virtual void Commit(bool contributed) = 0;
  // The base was replaced: what was lost before no longer counts.
  virtual void Reset() = 0;

  // The error feedback as it counts, to be saved and put back: map->elements() values. With
  // Options::error_feedback alone. Errors: the device's.
  virtual absl::Status ReadFeedback(absl::Span<float> out) = 0;
  virtual absl::Status WriteFeedback(absl::Span<const float> values) = 0;
};

}  // namespace longhaul::session
