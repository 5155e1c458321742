// The outer step of one tile, with the downlink's quantisation and the server's error feedback (the
// correction that keeps what the pools reconstruct equal to what the server holds):
//   step = optimizer(D) ;  d = E - step ;  c' = Q_down(d) ;  E = d - deq(c') ;  theta += deq(c')
//
// With an exact downlink codec E stays 0 and theta = theta - step, rounded once. Worked in runs of
// a few thousand elements that stay in a core's cache: momentum, error and theta are each read and
// written once, D and the step never leave the cache. Memory besides the arguments: one run. Pure;
// never blocks.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/codec/codec.h"
#include "coordinator/outer/agreement.h"
#include "coordinator/outer/outer_optimizer.h"
#include "coordinator/outer/weighted_mean.h"

namespace longhaul {

// A tile of a fragment's state; spans of one size.
struct TileState {
  absl::Span<float> theta, momentum, error;
};

// Sums over the tile, for norms and the downlink's NMSE.
struct TileResult {
  int32_t base_exponent = 0;    // Of the coded downlink.
  double gradient_energy = 0;   // D^2.
  double error_energy = 0;      // (d - deq(c'))^2, as EncodeResult.
  double signal_energy = 0;     // d^2, as EncodeResult.
  double parameter_energy = 0;  // theta^2, after the step.
  AgreementSample agreement;    // Of the tile's first run.
};

// `mean` holds the contributions to the tile; `coded` has down.PayloadBytes of the tile and gets
// c'. INVALID_ARGUMENT: the step is not finite; the state is then partly changed.
absl::StatusOr<TileResult> ApplyTile(const OuterOptimizer& optimizer, const Codec& down,
                                     const WeightedMean& mean, const TileState& state,
                                     const NoiseKey& noise, absl::Span<uint8_t> coded);

}  // namespace longhaul
