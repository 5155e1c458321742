#include "worker/rank/replica_factory.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/config/job_spec.h"
#include "worker/replica/synthetic_replica.h"
#include "worker/trainer/torch_replica.h"

namespace longhaul {
namespace {

std::string DataPath(const v1::DataSpec& data) {
  return data.has_tokens() ? data.tokens().path() : data.text().path();
}

absl::StatusOr<std::unique_ptr<Replica>> MakeSynthetic(const ReplicaOptions& options) {
  const v1::SyntheticModelSpec& model = options.spec.model().synthetic();
  SyntheticReplica::Options result{
      .units = model.units(), .elements = model.elements(), .initial = model.initial()};
  if (const int count = model.inner_delta_size(); count > 0) {
    result.inner_delta = model.inner_delta(std::min(options.ordinal, count - 1));
  }
  return SyntheticReplica::Create(result);
}

absl::StatusOr<TorchReplica::Options> TorchOptions(const ReplicaOptions& options) {
  const v1::JobSpec& spec = options.spec;
  const v1::AdamWSpec& adamw = spec.inner().adamw();
  TorchReplica::Options result;
  result.shape = ShapeOf(spec.model().transformer());
  result.batch = spec.train().batch();
  result.seed = spec.train().seed();
  result.pool = options.ordinal;
  result.learning_rate = {.peak = adamw.lr(),
                          .steps = spec.train().steps(),
                          .warmup_steps = spec.inner().schedule().warmup_steps(),
                          .final_fraction = spec.inner().schedule().final_fraction()};
  result.adamw = {.beta1 = adamw.beta1(),
                  .beta2 = adamw.beta2(),
                  .eps = adamw.eps(),
                  .weight_decay = adamw.weight_decay()};
  result.clip_norm = spec.inner().clip_norm();
  LH_ASSIGN_OR_RETURN(result.partition, PartitionOf(spec.partition()));
  result.accumulation = spec.train().accumulation();
  result.recompute = spec.train().activations() == v1::RECOMPUTE;
  result.data = spec.data().has_tokens() ? DataKind::kNanoGpt : DataKind::kText;
  result.data_path = (std::filesystem::path(options.data_dir) / DataPath(spec.data())).string();
  result.eval_fraction = spec.data().eval_fraction();
  result.eval_batches = spec.evaluation().batches();
  result.device = spec.train().device() == v1::CUDA ? DeviceKind::kCuda : DeviceKind::kCpu;
  result.device_index = options.local_rank;
  result.precision = spec.train().precision() == v1::BFLOAT16  ? ComputePrecision::kBfloat16
                     : spec.train().precision() == v1::FLOAT32 ? ComputePrecision::kFloat32
                                                               : ComputePrecision::kDefault;
  result.threads = options.threads;
  result.communicator = options.communicator;
  result.communicator_on_device = options.communicator_on_device;
  result.ranks_of_node = options.ranks_of_node;
  result.trace_path = options.trace_path;
  result.collective_timeout = options.collective_timeout;
  return result;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Replica>> MakeReplica(const ReplicaOptions& options) {
  switch (options.spec.model().kind_case()) {
    case v1::ModelSpec::kSynthetic:
      return MakeSynthetic(options);
    case v1::ModelSpec::kTransformer: {
      LH_ASSIGN_OR_RETURN(const TorchReplica::Options torch, TorchOptions(options));
      return TorchReplica::Create(torch);
    }
    default:
      return absl::UnimplementedError("model: this worker has only `transformer` and `synthetic`");
  }
}

}  // namespace longhaul
