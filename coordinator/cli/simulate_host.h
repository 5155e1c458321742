// `longhaul simulate cores --host`: what the product's own kernels are bound by on this machine.
#pragma once

#include "coordinator/cli/outcome.h"

namespace longhaul::cli {

// Sweeps the working sets of each kernel, for some seconds, and fits the level model
// (common/plan/level_model.h). 0 threads: one for each core that this process may use. An error if
// nothing can be measured.
Outcome SimulateHost(int threads);

}  // namespace longhaul::cli
