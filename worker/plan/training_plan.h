// How a job trains, for any family of models: made once from its spec (plan_of_spec.h), and passed
// through to the engine. Plain values, which know neither torch nor protobuf. Equal on all ranks of
// a pool.
#pragma once

#include <cstdint>

#include "common/partition/partition_map.h"
#include "worker/optim/learning_rate.h"
#include "worker/optim/optimizer_options.h"
#include "worker/plan/offload_plan.h"

namespace longhaul {

enum class DeviceKind { kCpu, kCuda };

// In which type matrices are multiplied. Masters and vectors are float32 in any case.
enum class ComputePrecision { kFloat32, kBfloat16 };

// How units are computed. kFused: by hand-written kernels (FusedPass). kAuto: kFused if the model
// has such a pass for the device, otherwise kAutograd.
enum class Blocks { kAuto, kFused, kAutograd };

// See EvaluationSpec.beside_training of job.proto.
struct EvaluationBeside {
  // How many may be in progress, each with a copy of the weights. 0: training stops for each.
  int evaluations = 0;
  // The memory of this node that they may take. 0: what the system says is free.
  int64_t host_bytes = 0;
};

struct TrainingPlan {
  // The pool's examples in a step: sequences, or seed nodes.
  int64_t batch = 0;
  // Micro-batches in a step.
  int accumulation = 1;
  // For the order of the data, and for the initial parameters if none are given.
  uint64_t seed = 0;
  LearningRate learning_rate;
  OptimizerOptions optimizer;
  // 0 or less: no clipping.
  double clip_norm = 1;

  PartitionMap partition;
  // How many units' weights are gathered before their use, if weights are split. See WeightStream.
  int gathers_ahead = 1;
  OffloadPlan offload;

  DeviceKind device = DeviceKind::kCpu;
  ComputePrecision precision = ComputePrecision::kFloat32;
  // Backward computes activations again instead of keeping them.
  bool recompute = false;
  Blocks blocks = Blocks::kAuto;
  // For kCuda only. See cuda_graphs of job.proto.
  bool cuda_graphs = false;

  // Each has `batch` examples.
  int64_t eval_batches = 8;
  // For kCpu only.
  EvaluationBeside evaluation_beside;
};

}  // namespace longhaul
