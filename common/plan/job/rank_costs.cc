#include "common/plan/job/rank_costs.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/base/check.h"
#include "common/config/optimizer_kinds.h"
#include "common/config/transformer_spec.h"
#include "common/layout/head_logits.h"
#include "common/layout/unit_pieces.h"
#include "common/plan/job/machines.h"
#include "common/plan/job/measured_rates.h"
#include "common/plan/partition_costs.h"
#include "common/plan/update_model.h"

namespace longhaul::plan {
namespace {

// Nominal rates of a rank's host, from tests/benchmark/README.md: coding and merging run at 0.5 to
// 1.4 of a memcpy, an AdamW update of the host at 0.5 to 1 billion parameters per second. A GPU's
// own AdamW is bound by its memory: 28 bytes for each parameter.
constexpr double kCodedPerSecond = 4e8, kCopiedPerSecond = 1e9;
constexpr double kHostUpdatesPerSecond = 5e8, kHostBytesPerSecond = 20e9;
constexpr double kDeviceUpdateBytes = 28, kDeviceLinkBytesPerSecond = 25e9;
// Of a program with libtorch; with a CUDA context and its libraries.
constexpr double kProgramBytes = 0.2e9, kCudaProgramBytes = 0.8e9;
// Units whose reductions are under way at one time, and the one that is being differentiated.
constexpr int kGradientsUnderWay = 3;

struct Model {
  TransformerShape shape;
  double rows = 0;
  bool bf16 = false, cuda = false, fused = false, recomputes = false;
};

Model ModelOf(const ResolvedJob& job, int ranks) {
  const v1::TrainSpec& train = job.spec.train();
  Model model;
  model.shape = ShapeOf(job.spec.model().transformer());
  const double sequences =
      std::ceil(static_cast<double>(train.batch()) / ranks / std::max(1, train.accumulation()));
  model.rows = sequences * static_cast<double>(model.shape.context);
  model.bf16 = train.precision() == v1::BFLOAT16;
  model.cuda = train.device() == v1::CUDA;
  model.fused = !model.cuda && train.blocks() != v1::AUTOGRAD;
  model.recomputes = train.activations() == v1::RECOMPUTE;
  return model;
}

Topology TopologyOf(const v1::PoolSite& site) {
  const absl::StatusOr<Topology> topology =
      Topology::Make(std::vector<int>(site.nodes(), site.ranks()));
  LH_CHECK(topology.ok(), "the site is complete");
  return *topology;
}

PartitionSetting PartitionSettingOf(const ResolvedJob& job, const v1::PoolSite& site) {
  const absl::StatusOr<PartitionMap> map = PartitionOf(job.spec.partition());
  LH_CHECK(map.ok(), "the job is resolved");
  return {.layout = job.model,
          .topology = TopologyOf(site),
          .map = *map,
          .bf16 = job.spec.train().precision() == v1::BFLOAT16,
          .accumulation = std::max(1, job.spec.train().accumulation())};
}

int RanksOf(const v1::PoolSite& site) { return site.nodes() * site.ranks(); }

double LargestUnit(const ModelLayout& model) {
  int64_t largest = 0;
  for (const UnitLayout& unit : model.units) largest = std::max(largest, unit.elements);
  return static_cast<double>(largest);
}

// What backward needs of forward, and its working memory, in bytes. Longhaul's own kernels keep
// float32 whatever they compute in, and the head's weights packed for either direction.
double Activations(const Model& m) {
  const TransformerShape& s = m.shape;
  const double dim = static_cast<double>(s.dim), ff = static_cast<double>(s.ff_dim);
  const double width = static_cast<double>(s.head_width());
  const double q = static_cast<double>(s.heads) * width;
  const double qkv = q + 2 * static_cast<double>(s.kv_heads) * width;
  const double heads = static_cast<double>(s.heads), layers = static_cast<double>(s.layers);
  const double element = m.bf16 ? 2 : 4, vocab = static_cast<double>(s.vocab);
  const double unnormed = s.qk_norm ? qkv - static_cast<double>(s.kv_heads) * width + 2 * heads : 0;
  if (m.fused) {
    const double block = qkv + unnormed + q + heads + dim + 2 * ff + 2;
    const double scratch = 3 * dim + q + ff + qkv + std::max(dim, ff);
    const double head = 4 * dim + 1;
    const double kept = (m.recomputes ? 1 : layers) * block + (layers + 1) * dim;
    const double least = kKernelRowsMin, most = kKernelLogitsMax;
    const double logits = vocab * std::min(m.rows, std::max(least, most / vocab));
    return 4 * (m.rows * (kept + scratch + head) + logits) + 2 * element * vocab * dim;
  }
  // Of autograd: the inputs of each product, norm, rotation and SwiGLU.
  const double block = element * (4 * dim + 2 * qkv + unnormed + 2 * q + 4 * ff) + 4 * heads;
  const double kept = (m.recomputes ? 1 : layers) * block + layers * element * dim;
  // Logits and their softmax in float32, and in bf16 the logits themselves.
  const double most = m.cuda ? kDeviceLogitsMax : kHostLogitsMax;
  const double logits = (m.bf16 ? 10 : 8) * std::min(m.rows * vocab, most);
  return m.rows * kept + std::max(m.rows * block, logits);
}

// Seconds of an update of so many parameters of a rank, with nominal rates.
double OffloadedUpdate(const v1::OffloadSpec& offload, double parameters,
                       double device_bytes_per_second, const v1::PoolSite& site) {
  const auto of_subgroup = static_cast<double>(offload.subgroup_elements());
  const auto subgroups = static_cast<size_t>(std::max(1.0, std::ceil(parameters / of_subgroup)));
  const std::vector<int64_t> elements(
      subgroups, static_cast<int64_t>(parameters / static_cast<double>(subgroups)));
  const v1::HostFigures& figures = site.figures();
  const double memory = figures.memory_gb_per_second() * 1e9;
  const UpdateLoad load{
      .rates = {.host_elements =
                    MeasuredUpdates(figures, parameters).value_or(kHostUpdatesPerSecond),
                .device_elements = device_bytes_per_second / kDeviceUpdateBytes,
                .up_bytes = kDeviceLinkBytesPerSecond,
                .down_bytes = kDeviceLinkBytesPerSecond,
                .dram_bytes = memory > 0 ? memory : kHostBytesPerSecond * site.ranks()},
      .traffic = {.shadow_up = 2},
      .ranks = site.ranks()};
  const double share = offload.device_share();
  const int stride = offload.has_stride() ? offload.stride() : ChooseStride(load, elements, share);
  return PredictSeconds(load, elements,
                        MakeUpdateSchedule(elements, {.stride = stride, .device_share = share}));
}

// Forward is a third of a step's arithmetic; with RECOMPUTE it is done twice.
double EvaluationSeconds(const v1::JobSpec& spec, double compute) {
  if (spec.evaluation().beside_training()) return 0;
  const double forward = spec.train().activations() == v1::RECOMPUTE ? 0.25 : 1.0 / 3;
  return forward * spec.evaluation().batches() * compute;
}

v1::RankMemory Times(double count, const v1::RankMemory& of) {
  v1::RankMemory memory;
  memory.set_weights(count * of.weights());
  memory.set_gradients(count * of.gradients());
  memory.set_optimizer(count * of.optimizer());
  memory.set_activations(count * of.activations());
  memory.set_gathered(count * of.gathered());
  memory.set_exchange(count * of.exchange());
  memory.set_program(count * of.program());
  return memory;
}

void SetTotal(v1::RankMemory& m) {
  m.set_total(m.weights() + m.gradients() + m.optimizer() + m.activations() + m.gathered() +
              m.exchange() + m.program());
}

}  // namespace

double OperationsPerToken(const ResolvedJob& job) {
  double matrices = 0, of_blocks = 0;
  for (const UnitLayout& unit : job.model.units) {
    for (const TensorLayout& tensor : unit.tensors) {
      if (tensor.shape.size() < 2 || unit.kind == UnitKind::kEmbedding) continue;
      matrices += static_cast<double>(tensor.elements);
      if (unit.kind == UnitKind::kBlock) of_blocks += static_cast<double>(tensor.elements);
    }
  }
  const TransformerShape shape = ShapeOf(job.spec.model().transformer());
  if (shape.tie_embeddings) matrices += static_cast<double>(shape.vocab * shape.dim);
  const double attention = 12 * static_cast<double>(shape.layers * shape.heads) *
                           static_cast<double>(shape.head_width() * shape.context) / 2;
  const bool again = job.spec.train().activations() == v1::RECOMPUTE;
  return 6 * matrices + attention + (again ? 2 * of_blocks + attention / 3 : 0);
}

StepCosts StepCostsOf(const ResolvedJob& job, const v1::PoolSite& site) {
  const v1::TrainSpec& train = job.spec.train();
  const double tokens = static_cast<double>(train.batch()) *
                        static_cast<double>(job.spec.model().transformer().context());
  StepCosts costs;
  if (site.tokens_per_second() > 0) {
    costs.compute = costs.step = tokens / site.tokens_per_second();
    costs.evaluation = EvaluationSeconds(job.spec, costs.compute);
    return costs;
  }
  const int ranks = RanksOf(site);
  costs.compute = tokens * OperationsPerToken(job) / (ranks * site.teraflops() * 1e12);
  const PartitionSetting setting = PartitionSettingOf(job, site);
  const LevelBytes bytes = TrafficOf(setting).total();
  costs.exchange = bytes.pair / (site.pair_gb_per_second() * 1e9) +
                   bytes.node / (site.node_gb_per_second() * 1e9) +
                   bytes.pool / (site.pool_gb_per_second() * 1e9);
  const double updated = StateOf(setting).optimizer / 12;
  if (train.device() == v1::CUDA) {
    const Machine* machine = FindMachine(site.machine());
    const double device_bytes = machine == nullptr ? 1e12 : machine->memory_gb_per_second * 1e9;
    costs.update = job.spec.offload().optimizer()
                       ? OffloadedUpdate(job.spec.offload(), updated, device_bytes, site)
                       : updated * kDeviceUpdateBytes / device_bytes;
  } else {
    costs.update =
        updated / MeasuredUpdates(site.figures(), updated).value_or(kHostUpdatesPerSecond);
  }
  costs.step = std::max(costs.compute, costs.exchange) + costs.update;
  costs.evaluation = EvaluationSeconds(job.spec, costs.compute);
  return costs;
}

PoolMemory MemoryOfPool(const ResolvedJob& job, const v1::PoolSite& site) {
  const v1::JobSpec& spec = job.spec;
  const int ranks = RanksOf(site);
  const Model model = ModelOf(job, ranks);
  const PartitionSetting setting = PartitionSettingOf(job, site);
  const PartitionState state = StateOf(setting);
  const PartitionMap map = Normalized(setting.map, setting.topology);
  const double parameters = static_cast<double>(job.model.elements()), own = parameters / ranks;
  const double element = model.bf16 ? 2 : 4, unit = LargestUnit(job.model);

  v1::RankMemory device, host;
  const MatrixCount matrices = CountMatrices(job.model);
  const double optimizer =
      OptimizerKindOf(spec.inner())
          .state_bytes(spec.inner(), {.adamw_bytes = state.optimizer,
                                      .parameters = parameters,
                                      .matrix_elements = static_cast<double>(matrices.elements),
                                      .ranks = ranks});
  const bool offloads = spec.offload().optimizer();
  const double moments_on_device =
      offloads ? spec.offload().device_share() * optimizer * 2 / 3 : optimizer;
  device.set_optimizer(moments_on_device);
  const double weights = state.weights + state.secondary;
  device.set_weights(spec.offload().parameters() ? state.secondary : weights);
  device.set_gradients(state.gradients + state.error_feedback);
  device.set_activations(Activations(model));
  double gathered = 0;
  const int ahead = spec.partition().gathers_ahead();
  if (map.weights.level != Level::kRank) gathered += (1 + ahead) * unit * element;
  if (map.gradients.level != Level::kRank) gathered += kGradientsUnderWay * unit * 4;
  device.set_gathered(gathered);

  // Between pools, in host memory: the outer parameters; of each fragment under way a snapshot or
  // its code, and the parameters that arrive.
  double largest = 0;
  for (const FragmentLayout& fragment : job.fragments)
    largest = std::max(largest, static_cast<double>(fragment.elements) / ranks);
  const double between = static_cast<double>(spec.sync().h()) / job.fragments.size();
  const double under_way =
      std::min<double>(job.fragments.size(), 1 + std::ceil(spec.sync().tau() / between));
  const double exchange =
      4 * own + (spec.sync().up().error_feedback() ? 4 * own : 0) + 8 * largest * under_way;
  const double offloaded = offloads ? optimizer - moments_on_device + 4 * own : 0;
  const double on_host_weights = spec.offload().parameters() ? state.weights : 0;

  const double per_node = site.ranks();
  if (model.cuda) {
    device.set_program(kCudaProgramBytes);
    host.set_optimizer(per_node * offloaded);
    host.set_weights(per_node * on_host_weights);
    host.set_exchange(per_node * exchange);
    host.set_program(per_node * kCudaProgramBytes);
    device.set_available(site.device_gib() * kGiB);
  } else {
    // The emulated device lies in the same memory.
    device.set_optimizer(device.optimizer() + offloaded);
    device.set_weights(device.weights() + on_host_weights);
    device.set_exchange(exchange);
    device.set_program(kProgramBytes);
    host = Times(per_node, device);
  }
  SetTotal(device);
  SetTotal(host);
  host.set_available(site.host_gib() * kGiB);
  return {device, host};
}

CodingRates CodingOf(const ResolvedJob& job, const v1::PoolSite& site) {
  const double ranks = RanksOf(site);
  const v1::HostFigures& figures = site.figures();
  const v1::SyncSpec& sync = job.spec.sync();
  return {ranks * MeasuredEncoding(figures, sync.up().codec()).value_or(kCodedPerSecond),
          ranks * MeasuredDecoding(figures, sync.down().codec()).value_or(kCodedPerSecond),
          ranks * MeasuredCopying(figures).value_or(kCopiedPerSecond)};
}

}  // namespace longhaul::plan
