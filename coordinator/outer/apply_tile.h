// The outer step of one tile, with the downlink's quantisation and the server's error feedback (the
// correction that keeps what the pools reconstruct equal to what the server holds):
//   step = optimizer(D) ;  d = -step + E ;  c' = Q_down(d) ;  E = d - deq(c') ;  theta = theta +
//   deq(c')
//
// With an exact downlink codec E stays 0 and theta = theta - step, rounded once. Memory besides the
// arguments: nothing. Pure; never blocks.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/codec/codec.h"
#include "coordinator/outer/outer_optimizer.h"

namespace longhaul {

// A tile of a fragment's state; spans of one size.
struct TileState {
  absl::Span<float> theta, momentum, error;
};

// Sums over the tile, for norms and the downlink's NMSE.
struct TileResult {
  int32_t base_exponent = 0;    // Of the coded downlink.
  double gradient_energy = 0;   // D^2.
  double error_energy = 0;      // (d - deq(c'))^2.
  double signal_energy = 0;     // d^2.
  double parameter_energy = 0;  // theta^2, after the step.
};

// `gradient` holds D and is overwritten; `coded` has down.PayloadBytes of the tile and gets c'.
// INVALID_ARGUMENT: the step is not finite; the state is then partly changed.
absl::StatusOr<TileResult> ApplyTile(const OuterOptimizer& optimizer, const Codec& down,
                                     absl::Span<float> gradient, const TileState& state,
                                     absl::Span<uint8_t> coded);

}  // namespace longhaul
