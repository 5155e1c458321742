#include "coordinator/outer/apply_tile.h"

#include <algorithm>
#include <array>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/codec/segment_encoder.h"
#include "common/layout/fragment_layout.h"
#include "coordinator/outer/sum_of_squares.h"

namespace longhaul {

absl::StatusOr<TileResult> ApplyTile(const OuterOptimizer& optimizer, const Codec& down,
                                     const WeightedMean& mean, const TileState& state,
                                     const NoiseKey& noise, absl::Span<uint8_t> coded) {
  const int64_t elements = mean.elements();
  LH_CHECK(static_cast<int64_t>(state.theta.size()) == elements &&
               static_cast<int64_t>(state.error.size()) == elements,
           "spans differ");
  alignas(64) std::array<float, kRunElements> buffer;
  TileResult result;
  SegmentEncoder encoder(down, elements, state.error, coded, noise);
  const float decay = down.options().feedback_decay;
  for (int64_t first = 0; first < elements; first += kRunElements) {
    const int64_t count = std::min(kRunElements, elements - first);
    const auto run = absl::MakeSpan(buffer).first(count);
    LH_RETURN_IF_ERROR(mean.Mean(first, run));
    const double energy = optimizer.Step(run, state.momentum.subspan(first, count));
    result.gradient_energy += energy;
    if (first == 0) result.agreement.mean_energy = energy;
    const absl::Span<float> error = state.error.subspan(first, count);
    if (decay != 1) {
      for (float& owed : error) owed *= decay;
    }
    encoder.Add({.values = error, .minus = run});
  }
  const auto sample = absl::MakeSpan(buffer).first(std::min(kRunElements, elements));
  LH_ASSIGN_OR_RETURN(result.agreement.energies, mean.Energies(0, sample));
  LH_ASSIGN_OR_RETURN(const EncodeResult encoded, encoder.Finish());
  result.base_exponent = encoded.base_exponent;
  result.error_energy = encoded.error_energy;
  result.signal_energy = encoded.signal_energy;
  // Theta is updated only now, since a block's scale may depend on the whole segment. The codes are
  // still in the cache.
  const SegmentView segment = {elements, encoded.base_exponent, coded};
  // 1 * x is exact. So each element has one rounded addition, as in every pool.
  LH_RETURN_IF_ERROR(down.DecodeAccumulate(segment, 1.0f, state.theta));
  result.parameter_energy = SumOfSquares(state.theta);
  return result;
}

}  // namespace longhaul
