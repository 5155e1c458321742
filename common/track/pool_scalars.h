// The curves of a pool. The coordinator and the pool itself track them under the same tags. Pure.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "common/base/named_value.h"
#include "common/track/scalar.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul {

// train/...: loss, learning rate, gradient norm, tokens, tokens/s. exchange/...: the error of
// coding, and the time spent waiting.
std::vector<Scalar> ProgressScalars(const v1::PoolProgress& progress);
// eval/NAME of each metric; for a loss alone also its perplexity. `final`: also final/NAME, since
// the last step may have been evaluated already, before the last round.
std::vector<Scalar> EvaluationScalars(double loss, absl::Span<const NamedValue> metrics,
                                      bool final);

}  // namespace longhaul
