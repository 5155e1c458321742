#include "coordinator/outer/apply_tile.h"

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "coordinator/outer/sum_of_squares.h"

namespace longhaul {

absl::StatusOr<TileResult> ApplyTile(const OuterOptimizer& optimizer, const Codec& down,
                                     absl::Span<float> gradient, const TileState& state,
                                     absl::Span<uint8_t> coded) {
  LH_CHECK(gradient.size() == state.theta.size() && gradient.size() == state.error.size(),
           "spans differ");
  TileResult result;
  result.gradient_energy = SumOfSquares(gradient);
  optimizer.Step(gradient, state.momentum);
  for (float& step : gradient) step = -step;
  LH_ASSIGN_OR_RETURN(const EncodeResult encoded,
                      down.EncodeWithFeedback(gradient, state.error, coded));
  // 1 * x is exact: one rounded addition an element, as in every pool.
  LH_RETURN_IF_ERROR(down.DecodeAccumulate(encoded.base_exponent, coded, 1.0f, state.theta));
  result.base_exponent = encoded.base_exponent;
  result.error_energy = encoded.error_energy;
  result.signal_energy = encoded.signal_energy;
  result.parameter_energy = SumOfSquares(state.theta);
  return result;
}

}  // namespace longhaul
