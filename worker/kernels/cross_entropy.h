// Cross-entropy of rows of logits, and its gradient in their place. On the caller's thread.
#pragma once

#include <cstdint>

namespace longhaul::kernels {

// Sum over rows of log(sum(exp(logits))) - logits[target], in nats. Turns the logits into the gradient
// of `scale` times that sum: scale (softmax - one at the target). Targets are in [0, classes).
double CrossEntropy(float* logits, const int64_t* targets, int64_t rows, int64_t classes,
                    double scale);

}  // namespace longhaul::kernels
