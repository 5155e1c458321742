// Makes the inner optimizer that a job asks for.
#pragma once

#include <memory>
#include <string>

#include "ATen/core/Tensor.h"
#include "absl/types/span.h"
#include "common/base/thread_team.h"
#include "common/layout/unit_pieces.h"
#include "worker/optim/optimizer.h"
#include "worker/optim/optimizer_options.h"

namespace longhaul {

// How the units of a model must be cut for an optimizer.
CutRule CutRuleOf(const OptimizerOptions& options);

// One line for the log: which optimizer updates how many parameters of the model. On a CPU also
// whether it lacks the instructions that make the optimizer fast.
std::string DescribeOptimizer(const OptimizerOptions& options, const ModelLayout& model,
                              bool on_cpu);

// Makes an optimizer for subgroups in the memory of `device`. `team`: the rank's threads, which
// outlive the result. Throws as torch does.
std::unique_ptr<Optimizer> MakeOptimizer(const OptimizerOptions& options,
                                         absl::Span<const SubgroupShape> subgroups,
                                         at::Device device, ThreadTeam& team);

}  // namespace longhaul
