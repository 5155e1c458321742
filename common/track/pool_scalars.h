// What is tracked of a pool, by the coordinator and by the pool itself, under the same tags. Pure.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "common/base/named_value.h"
#include "common/track/scalar.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul {

// train/...: loss, learning rate, gradient norm, tokens, tokens/s; exchange/...: what coding lost, and waiting.
std::vector<Scalar> ProgressScalars(const v1::PoolProgress& progress);
// eval/NAME of each; of a loss alone its perplexity, too. `final`: also final/NAME, since the last step may have been
// evaluated already, before the last round.
std::vector<Scalar> EvaluationScalars(double loss, absl::Span<const NamedValue> metrics,
                                      bool final);

}  // namespace longhaul
