#include "coordinator/store/fragment_state.h"

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/checked_math.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/layout/fragment_layout.h"
#include "coordinator/outer/apply_tile.h"
#include "coordinator/outer/average.h"
#include "coordinator/outer/nesterov.h"
#include "coordinator/outer/sgd.h"
#include "coordinator/outer/sum_of_squares.h"
#include "coordinator/outer/weighted_mean.h"
#include "coordinator/store/ordered_tiles.h"

namespace longhaul {
namespace {

// The memory with which one thread works on a tile.
struct Worker {
  ContributionReader::Buffer buffer;
  WeightedMean mean;
  TileResult result;
  // The coded tile, if the round's downlink is not kept.
  std::vector<uint8_t> coded;
};

int64_t TilesOf(const FragmentState& state) { return CeilDiv(state.elements(), kTileElements); }

absl::StatusOr<RoundSums> ApplySeed(const RoundWork& work, FragmentState& state) {
  RoundSums sums;
  Digester digester;
  const auto tile_of = [&](int64_t tile) {
    return absl::MakeSpan(state.theta).subspan(tile * kTileElements, kTileElements);
  };
  std::vector<ContributionReader::Buffer> buffers(work.threads);
  const auto read = [&](int64_t tile, int worker) {
    return work.contributions->ReadSeed(tile * kTileBlocks, &buffers[worker], tile_of(tile));
  };
  const auto add_up = [&](int64_t tile, int) {
    digester.Update(tile_of(tile));
    sums.parameter_energy += SumOfSquares(tile_of(tile));
    return absl::OkStatus();
  };
  LH_RETURN_IF_ERROR(ForTilesInOrder(TilesOf(state), work.threads, read, add_up));
  state.momentum.Clear();
  state.error.Clear();
  sums.digest = digester.Value();
  return sums;
}

absl::StatusOr<RoundSums> ApplyOuter(const OuterOptimizer& optimizer, const Codec& down,
                                     const RoundWork& work, FragmentState& state) {
  LH_CHECK(work.downlink.empty() ||
               static_cast<int64_t>(work.downlink.size()) == down.FragmentBytes(state.elements()),
           "the downlink's size");
  RoundSums sums;
  Digester digester;
  std::vector<Worker> workers(work.threads);
  if (work.downlink.empty()) {
    for (Worker& worker : workers) worker.coded.resize(down.PayloadBytes(kTileElements));
  }
  const auto state_of = [&](int64_t tile) {
    const auto part = [&](FloatArray& values) {
      return absl::MakeSpan(values).subspan(tile * kTileElements, kTileElements);
    };
    return TileState{part(state.theta), part(state.momentum), part(state.error)};
  };
  const auto coded_of = [&](int64_t tile, int64_t elements, Worker& worker) {
    const int64_t bytes = down.PayloadBytes(elements);
    return work.downlink.empty()
               ? absl::MakeSpan(worker.coded).first(bytes)
               : work.downlink.subspan(tile * down.PayloadBytes(kTileElements), bytes);
  };
  const auto apply = [&](int64_t tile, int index) -> absl::Status {
    Worker& worker = workers[index];
    const int64_t first_block = tile * kTileBlocks;
    const TileState arrays = state_of(tile);
    const int64_t elements = arrays.theta.size();
    LH_RETURN_IF_ERROR(
        work.contributions->ReadTile(first_block, elements, &worker.buffer, &worker.mean));
    LH_ASSIGN_OR_RETURN(worker.result,
                        ApplyTile(optimizer, down, worker.mean, arrays,
                                  {.key = work.noise_key, .first_block = first_block},
                                  coded_of(tile, elements, worker)));
    return absl::OkStatus();
  };
  const auto add_up = [&](int64_t tile, int index) -> absl::Status {
    Worker& worker = workers[index];
    const TileResult& result = worker.result;
    const absl::Span<const float> theta = state_of(tile).theta;
    const auto coded = coded_of(tile, theta.size(), worker);
    LH_RETURN_IF_ERROR(work.sink(
        {tile * kTileBlocks, static_cast<int32_t>(theta.size()), result.base_exponent}, coded));
    // Here theta is still in the cache of this core.
    digester.Update(theta);
    sums.gradient_energy += result.gradient_energy;
    sums.error_energy += result.error_energy;
    sums.signal_energy += result.signal_energy;
    sums.parameter_energy += result.parameter_energy;
    sums.agreement.Add(result.agreement);
    sums.downlink_bytes += coded.size();
    return absl::OkStatus();
  };
  LH_RETURN_IF_ERROR(ForTilesInOrder(TilesOf(state), work.threads, apply, add_up));
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

uint64_t NoiseKeyOf(const JobStoreOptions& options, const RoundId& round) {
  return Philox64(options.noise_seed, round.fragment, round.version);
}

absl::Status NotSeeded(int fragment) {
  return absl::FailedPreconditionError(absl::StrCat("fragment ", fragment, " is not seeded"));
}

absl::StatusOr<RoundSums> ApplyToState(const OuterRules& rules, RoundKind kind,
                                       const RoundWork& work, FragmentState& state) {
  switch (kind) {
    case RoundKind::kSeed:
      return ApplySeed(work, state);
    case RoundKind::kOuter:
      return ApplyOuter(*rules.outer, *rules.down, work, state);
    case RoundKind::kFinal:
      return ApplyOuter(Average(), *rules.down, work, state);
    case RoundKind::kSkipped:
      break;
  }
  return RoundSums{.digest = state.digest, .parameter_energy = SumOfSquares(state.theta)};
}

}  // namespace longhaul
