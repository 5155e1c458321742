// The state of one fragment in memory, and how a round changes it, tile by tile. The same code
// makes a version and makes it again after a crash. So its only inputs are the state, the
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

// Version of the arithmetic (weighted mean, optimizers, ApplyTile, codecs). Every commit contains
// it, so that a log is never applied again with other arithmetic.
inline constexpr uint32_t kArithmeticVersion = 3;

struct FragmentState {
  FloatArray theta, momentum, error;
  int64_t version = -1;
  // Sequence of the frame that committed the version.
  uint64_t commit_sequence = 0;
  // Digest of theta; zero before the seed.
  Digest128 digest;

  explicit FragmentState(int64_t elements) : theta(elements), momentum(elements), error(elements) {}
  int64_t elements() const { return theta.size(); }
};

// Takes one coded tile of the downlink (a part of RoundWork::downlink), in order.
using DownlinkSink =
    std::function<absl::Status(const SegmentRef& segment, absl::Span<const uint8_t> payload)>;

struct RoundSums {
  // Digest of theta after the round.
  Digest128 digest;
  double gradient_energy = 0, error_energy = 0, signal_energy = 0, parameter_energy = 0;
  int64_t downlink_bytes = 0;
  AgreementSample agreement;
};

// How the outer steps of a job are made. Constant.
struct OuterRules {
  // Used by rounds of kind kOuter; kFinal is a plain average.
  std::unique_ptr<OuterOptimizer> outer;
  std::unique_ptr<Codec> down;
};
absl::StatusOr<OuterRules> MakeOuterRules(const JobStoreOptions& options);

// The key of the downlink's stochastic rounding in one round. It is the same when the round is
// applied again.
uint64_t NoiseKeyOf(const JobStoreOptions& options, const RoundId& round);

// The inputs of a round, except the state.
struct RoundWork {
  const ContributionReader* contributions = nullptr;
  uint64_t noise_key = 0;
  // Receives the coded downlink, tile by tile. Its size is rules.down->FragmentBytes of the
  // fragment. Empty: nobody wants it, and the bytes of a tile live until the sink has returned.
  // Rounds of kind kSeed and kSkipped do not use it.
  absl::Span<uint8_t> downlink;
  DownlinkSink sink;
  // How many threads share the tiles. The result does not depend on it.
  int threads = 1;
};

// FAILED_PRECONDITION: the fragment has no version yet.
absl::Status NotSeeded(int fragment);

// Changes the arrays of `state` by one round, and nothing else of it. kSeed: theta becomes the only
// contribution, bit for bit; momentum and error become zero. kSkipped: no change. kOuter, kFinal:
// the weighted mean and an outer step of each tile. After an error the arrays are partly changed.
// Errors: those of reading the log and of the sink; INVALID_ARGUMENT from codecs.
absl::StatusOr<RoundSums> ApplyToState(const OuterRules& rules, RoundKind kind,
                                       const RoundWork& work, FragmentState& state);

}  // namespace longhaul
