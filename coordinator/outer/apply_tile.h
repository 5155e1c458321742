// The outer step of one tile, with the downlink's quantisation and the server's error feedback:
// what the quantisation loses is added to the next step. Theta is updated with the decoded step, so
// the server and the pools hold the same:
//   step = optimizer(D) ;  d = decay E - step ;  c' = Q_down(d) ;  E = d - deq(c')
//   theta += deq(c')
// decay: the downlink's feedback_decay.
//
// With an exact downlink codec E stays 0, and theta = theta - step, rounded once. The work is done
// in runs of a few thousand elements that stay in a core's cache. So momentum, error and theta are
// each read and written once, and D and the step never leave the cache. Memory besides the
// arguments: one run. Pure; never blocks.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/codec/codec.h"
#include "coordinator/outer/agreement.h"
#include "coordinator/outer/outer_optimizer.h"
#include "coordinator/outer/weighted_mean.h"

namespace longhaul {

// A tile of a fragment's state. All spans have the same size.
struct TileState {
  absl::Span<float> theta, momentum, error;
};

// Sums over the tile, for the norms and for the downlink's NMSE.
struct TileResult {
  // Base exponent of the coded downlink.
  int32_t base_exponent = 0;
  // Sum of D^2.
  double gradient_energy = 0;
  // Sum of (d - deq(c'))^2, measured as in EncodeResult.
  double error_energy = 0;
  // Sum of d^2, measured as in EncodeResult.
  double signal_energy = 0;
  // Sum of theta^2 after the step.
  double parameter_energy = 0;
  // Measured on the tile's first run.
  AgreementSample agreement;
};

// `mean` holds the contributions to the tile. `coded` has down.PayloadBytes of the tile and
// receives c'. INVALID_ARGUMENT: the step is not finite; then the state is partly changed.
absl::StatusOr<TileResult> ApplyTile(const OuterOptimizer& optimizer, const Codec& down,
                                     const WeightedMean& mean, const TileState& state,
                                     const NoiseKey& noise, absl::Span<uint8_t> coded);

}  // namespace longhaul
