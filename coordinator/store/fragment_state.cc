#include "coordinator/store/fragment_state.h"

#include <algorithm>

#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/layout/fragment_layout.h"
#include "coordinator/outer/apply_tile.h"
#include "coordinator/outer/average.h"
#include "coordinator/outer/nesterov.h"
#include "coordinator/outer/sgd.h"
#include "coordinator/outer/sum_of_squares.h"
#include "coordinator/outer/weighted_mean.h"

namespace longhaul {
namespace {

absl::StatusOr<RoundSums> ApplySeed(ContributionReader& contributions, FragmentState& state) {
  RoundSums sums;
  Digester digester;
  const auto theta = absl::MakeSpan(state.theta);
  for (int64_t begin = 0; begin < state.elements(); begin += kTileElements) {
    const auto tile = theta.subspan(begin, kTileElements);
    LH_RETURN_IF_ERROR(contributions.ReadSeed(begin / kBlockElements, tile));
    digester.Update(tile);
    sums.parameter_energy += SumOfSquares(tile);
  }
  std::fill(state.momentum.begin(), state.momentum.end(), 0.0f);
  std::fill(state.error.begin(), state.error.end(), 0.0f);
  sums.digest = digester.Value();
  return sums;
}

absl::StatusOr<RoundSums> ApplyOuter(ContributionReader& contributions,
                                     const OuterOptimizer& optimizer, const Codec& down,
                                     uint64_t noise_key, const DownlinkSink& sink,
                                     FragmentState& state) {
  RoundSums sums;
  Digester digester;
  WeightedMean mean;
  std::vector<uint8_t> coded(down.PayloadBytes(kTileElements));
  for (int64_t begin = 0; begin < state.elements(); begin += kTileElements) {
    const int64_t elements = std::min(kTileElements, state.elements() - begin);
    const int64_t first_block = begin / kBlockElements;
    LH_RETURN_IF_ERROR(contributions.ReadTile(first_block, elements, &mean));
    const TileState tile = {absl::MakeSpan(state.theta).subspan(begin, elements),
                            absl::MakeSpan(state.momentum).subspan(begin, elements),
                            absl::MakeSpan(state.error).subspan(begin, elements)};
    const auto payload = absl::MakeSpan(coded).first(down.PayloadBytes(elements));
    LH_ASSIGN_OR_RETURN(const TileResult result,
                        ApplyTile(optimizer, down, mean, tile,
                                  {.key = noise_key, .first_block = first_block}, payload));
    LH_RETURN_IF_ERROR(
        sink({first_block, static_cast<int32_t>(elements), result.base_exponent}, payload));
    digester.Update(tile.theta);
    sums.gradient_energy += result.gradient_energy;
    sums.error_energy += result.error_energy;
    sums.signal_energy += result.signal_energy;
    sums.parameter_energy += result.parameter_energy;
    sums.downlink_bytes += payload.size();
  }
  sums.digest = digester.Value();
  return sums;
}

}  // namespace

absl::StatusOr<OuterRules> MakeOuterRules(const JobStoreOptions& options) {
  OuterRules rules;
  const float lr = static_cast<float>(options.outer_lr);
  if (options.outer_momentum == 0) {
    rules.outer = std::make_unique<Sgd>(lr);
  } else {
    rules.outer = std::make_unique<Nesterov>(lr, static_cast<float>(options.outer_momentum));
  }
  LH_ASSIGN_OR_RETURN(rules.down, MakeCodec(options.down));
  return rules;
}

uint64_t NoiseKeyOf(const JobStoreOptions& options, int fragment, int64_t version) {
  const auto words = Philox(options.log_salt, fragment, version);
  return uint64_t{words[1]} << 32 | words[0];
}

absl::StatusOr<RoundSums> ApplyRound(const OuterRules& rules, RoundKind kind,
                                     ContributionReader& contributions, uint64_t noise_key,
                                     const DownlinkSink& sink, FragmentState& state) {
  switch (kind) {
    case RoundKind::kSeed:
      return ApplySeed(contributions, state);
    case RoundKind::kOuter:
      return ApplyOuter(contributions, *rules.outer, *rules.down, noise_key, sink, state);
    case RoundKind::kFinal:
      return ApplyOuter(contributions, Average(), *rules.down, noise_key, sink, state);
    case RoundKind::kSkipped:
      break;
  }
  return RoundSums{.digest = state.digest, .parameter_energy = SumOfSquares(state.theta)};
}

}  // namespace longhaul
