// Cross-entropy of rows of logits, and its gradient. A pure function on the caller's thread and
// memory; thread-safe.
#pragma once

#include <cstdint>

namespace longhaul::kernels {

// In place of the target of a row that has no loss.
inline constexpr int64_t kNoTarget = -1;

// Returns the sum over rows of log(sum(exp(logits))) - logits[target], in nats. Replaces the logits
// by the gradient of `scale` times that sum: scale (softmax(logits) - one_hot(target)). A row
// without a target adds nothing, and its gradient is 0. logits: [rows, classes]; targets: [rows],
// in [0, classes) or kNoTarget. A row with a target and a NaN makes the loss NaN. Tests hold the
// loss to a relative error of 1e-5.
double CrossEntropy(float* logits, const int64_t* targets, int64_t rows, int64_t classes,
                    double scale);

}  // namespace longhaul::kernels
