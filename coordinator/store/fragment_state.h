// The state of one fragment in memory, and how a round changes it, tile by tile. The same code
// makes a version and makes it again after a crash, so it has no input but the state, the
// contributions and the options.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/blocks/float_array.h"
#include "common/codec/codec.h"
#include "common/io/digest.h"
#include "coordinator/outer/agreement.h"
#include "coordinator/outer/outer_optimizer.h"
#include "coordinator/store/contribution_reader.h"
#include "coordinator/store/job_store_options.h"
#include "coordinator/store/round_records.h"

namespace longhaul {

// Version of the rules of arithmetic (weighted mean, optimizers, ApplyTile, codecs). Part of every
// commit: a log is not applied again by other rules.
inline constexpr uint32_t kArithmeticVersion = 3;

struct FragmentState {
  FloatArray theta, momentum, error;
  int64_t version = -1;
  uint64_t commit_sequence = 0;  // Of the frame that committed the version.
  Digest128 digest;              // Of theta; zero before the seed.

  explicit FragmentState(int64_t elements) : theta(elements), momentum(elements), error(elements) {}
  int64_t elements() const { return theta.size(); }
};

// Takes one coded tile of the downlink (a part of RoundWork::downlink), in order.
using DownlinkSink =
    std::function<absl::Status(const SegmentRef& segment, absl::Span<const uint8_t> payload)>;

struct RoundSums {
  Digest128 digest;  // Of theta after the round.
  double gradient_energy = 0, error_energy = 0, signal_energy = 0, parameter_energy = 0;
  int64_t downlink_bytes = 0;
  AgreementSample agreement;
};

// How an outer step of the job is made. Constant.
struct OuterRules {
  std::unique_ptr<OuterOptimizer> outer;  // For kOuter; kFinal is a plain average.
  std::unique_ptr<Codec> down;
};
absl::StatusOr<OuterRules> MakeOuterRules(const JobStoreOptions& options);

// The key of the downlink's stochastic rounding in one round: the same whenever it is applied
// again.
uint64_t NoiseKeyOf(const JobStoreOptions& options, int fragment, int64_t version);

// What a round is applied with, besides the state.
struct RoundWork {
  const ContributionReader* contributions = nullptr;
  uint64_t noise_key = 0;
  // Gets the coded downlink, tile by tile: rules.down->FragmentBytes of the fragment. Not used by
  // kSeed and kSkipped.
  absl::Span<uint8_t> downlink;
  DownlinkSink sink;
  int threads = 1;  // That share the tiles. The result does not depend on it.
};

// Changes the arrays of `state` by one round, and nothing else of it. kSeed: theta is the only
// contribution, bit for bit; momentum and error are zero. kSkipped: no change. kOuter, kFinal: the
// weighted mean and an outer step of each tile. After an error the arrays are partly changed.
// Errors: reading the log; those of the sink; INVALID_ARGUMENT from codecs.
absl::StatusOr<RoundSums> ApplyRound(const OuterRules& rules, RoundKind kind, const RoundWork& work,
                                     FragmentState& state);

}  // namespace longhaul
