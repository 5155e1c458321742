// Makes the optimizer that a job asks for.
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

// How an optimizer needs the units of a model to be cut.
CutRule CutRuleOf(const OptimizerOptions& options);

// Which optimizer gets how many parameters of a model, in one line; on a CPU also whether it lacks
// what is fast for it.
std::string DescribeOptimizer(const OptimizerOptions& options, const ModelLayout& model,
                              bool on_cpu);

// Of subgroups whose memory lies on `device`. `team`, which outlives it: the rank's threads. Throws as
// torch does.
std::unique_ptr<Optimizer> MakeOptimizer(const OptimizerOptions& options,
                                         absl::Span<const SubgroupShape> subgroups,
                                         at::Device device, ThreadTeam& team);

}  // namespace longhaul
