#include "worker/trainer/torch_replica.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>

#include "ATen/Parallel.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/base/status_marks.h"
#include "common/io/available_memory.h"
#include "worker/collective/communicator.h"
#include "worker/data/prefetched_batches.h"
#include "worker/engine/device.h"
#include "worker/engine/engine.h"
#include "worker/engine/optimizer_factory.h"
#include "worker/engine/torch_status.h"
#include "worker/family/family.h"
#include "worker/offload/host_memory.h"

namespace longhaul {
namespace {

// The number of the node that has this rank.
int NodeOf(int rank, absl::Span<const int> ranks_of_node) {
  int node = 0;
  for (int first = 0; node < static_cast<int>(ranks_of_node.size()); ++node) {
    first += ranks_of_node[node];
    if (rank < first) return node;
  }
  return 0;
}

InPoolTraffic TrafficOf(const ReceivedBytes& received) {
  const auto bytes = [&](Use use) {
    return InPoolBytes{.pair = received.Total(use, Level::kPair),
                       .node = received.Total(use, Level::kNode),
                       .pool = received.Total(use, Level::kPool)};
  };
  return {.forward = bytes(Use::kForward),
          .backward = bytes(Use::kBackward),
          .gradient = bytes(Use::kGradient),
          .refresh = bytes(Use::kRefresh)};
}

// Both settings are the process's; the pool of inter-operation threads can be sized only once.
void SetThreads(int threads) {
  at::set_num_threads(threads);
  static const bool sized = [] {
    if (at::get_num_interop_threads() != 1) at::set_num_interop_threads(1);
    return true;
  }();
  (void)sized;
}

absl::StatusOr<at::Device> OpenDevice(const TrainingPlan& plan, const RankSite& site) {
  return CatchTorch("preparing torch", [&]() -> absl::StatusOr<at::Device> {
    SetThreads(site.threads);
    if (plan.device == DeviceKind::kCuda) return OpenCudaDevice(site.device_index);
    return at::Device(at::kCPU);
  });
}

absl::StatusOr<std::unique_ptr<Engine>> MakeEngine(const TorchReplica::Options& options,
                                                   std::unique_ptr<const Model> model,
                                                   at::Device device) {
  std::unique_ptr<GraphRecorder> graphs;
  if (options.plan.cuda_graphs) {
    LH_ASSIGN_OR_RETURN(graphs, MakeCudaGraphRecorder(device));
  }
  return Engine::Create({.plan = options.plan,
                         .site = options.site,
                         .model = std::move(model),
                         .device = device,
                         .initial = options.initial,
                         .graphs = std::move(graphs)});
}

}  // namespace

absl::StatusOr<std::unique_ptr<TorchReplica>> TorchReplica::Create(const Options& options) {
  const TrainingPlan& plan = options.plan;
  LH_CHECK(options.site.threads > 0 && plan.batch > 0 && plan.eval_batches > 0,
           "counts must be positive");
  LH_ASSIGN_OR_RETURN(const at::Device device, OpenDevice(plan, options.site));
  FamilyContext context{.plan = plan, .device = device};
  if (const Communicator* const ranks = options.site.link.communicator; ranks != nullptr) {
    const std::vector<int>& of_node = options.site.link.ranks_of_node;
    context.rank = ranks->rank();
    context.ranks = context.ranks_of_node = ranks->size();
    if (!of_node.empty()) context.ranks_of_node = of_node[NodeOf(context.rank, of_node)];
  }
  LH_ASSIGN_OR_RETURN(Family opened, options.family(context));
  auto family = std::make_unique<Family>(std::move(opened));
  auto batches =
      std::make_unique<PrefetchedBatches>(std::move(family->maker), options.site.patience);
  LH_ASSIGN_OR_RETURN(const int64_t held_out_weight, batches->HeldOutWeight(plan.eval_batches));
  LH_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine,
                      MakeEngine(options, std::move(family->model), device));
  std::unique_ptr<TorchReplica> replica(new TorchReplica(
      options, std::move(family), std::move(batches), held_out_weight, std::move(engine)));
  LH_RETURN_IF_ERROR(replica->CompareData());
  if (plan.evaluation_beside.evaluations > 0)
    LH_RETURN_IF_ERROR(replica->PrepareEvaluationBeside());
  return replica;
}

TorchReplica::TorchReplica(const Options& options, std::unique_ptr<Family> family,
                           std::unique_ptr<BatchSource> batches, int64_t held_out_weight,
                           std::unique_ptr<Engine> engine)
    : plan_(options.plan),
      ranks_of_node_(options.site.link.ranks_of_node),
      patience_(options.site.patience),
      family_(std::move(family)),
      batches_(std::move(batches)),
      held_out_weight_(held_out_weight),
      engine_(std::move(engine)) {}

TorchReplica::~TorchReplica() = default;

const ModelLayout& TorchReplica::layout() const { return engine_->layout(); }
int TorchReplica::rank() const { return engine_->exchange().rank(); }
int TorchReplica::ranks() const { return engine_->exchange().ranks(); }
std::string TorchReplica::Describe() const {
  const bool on_cpu = plan_.device == DeviceKind::kCpu;
  std::string line = DescribeOptimizer(plan_.optimizer, layout(), on_cpu);
  if (plan_.cuda_graphs) absl::StrAppend(&line, "; CUDA graphs");
  if (const ProductTimes& times = engine_->product_times(); times.ours_are_slower()) {
    absl::StrAppendFormat(
        &line,
        "; computes blocks by libtorch (train.blocks AUTO): its matrix products take %.2g ms on "
        "this CPU, Longhaul's %.2g ms",
        1e-6 * static_cast<double>(times.torch_ns), 1e-6 * static_cast<double>(times.ours_ns));
  }
  absl::StrAppend(&line, family_->description);
  if (const UpdateSchedule* schedule = engine_->schedule(); schedule != nullptr) {
    absl::StrAppend(&line, "; offloaded: ", schedule->Describe(), ", ",
                    engine_->state_bytes().host >> 20, " MiB of each rank in host memory",
                    on_cpu ? " (the device is emulated: that saves nothing)" : "");
  }
  if (evaluating_ != nullptr) {
    absl::StrAppend(&line, "; evaluates alongside training, with ", evaluation_bytes_ >> 20,
                    " MiB of each rank at most",
                    plan_.blocks == Blocks::kAutograd ? " and what autograd computes" : "");
  }
  return line;
}
std::string TorchReplica::DescribeFeatures() const { return family_->features; }
BlockRange TorchReplica::OwnedBlocks(int unit) const { return engine_->plan().OwnedBlocks(unit); }

absl::StatusOr<StepStats> TorchReplica::Step(int64_t step) {
  const auto start = std::chrono::steady_clock::now();
  LH_ASSIGN_OR_RETURN(const ExampleBatch batch, batches_->Take(step));
  batches_->Prepare(step + 1);
  const double learning_rate = plan_.learning_rate.At(step);
  const auto stage = [&](int micro, int of) { return family_->stager->Stage(batch, micro, of); };
  const auto weight = static_cast<double>(batch.pool_weight);
  LH_ASSIGN_OR_RETURN(const StepResult result, engine_->Step(stage, weight, learning_rate));
  return StepStats{
      .loss = result.loss_sum / std::max(1.0, weight),
      .tokens = family_->units,
      .target_tokens = family_->partial_loss ? batch.pool_weight : 0,
      .gradient_norm = result.gradient_norm,
      .learning_rate = learning_rate,
      .skipped = result.skipped,
      .compute_seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
      .received = TrafficOf(result.received),
      .weights_nmse = result.weights_nmse,
      .gradients_nmse = result.gradients_nmse};
}

absl::StatusOr<InPoolTraffic> TorchReplica::Settle() {
  LH_ASSIGN_OR_RETURN(const ReceivedBytes received, engine_->Settle());
  return TrafficOf(received);
}

bool TorchReplica::settled() const { return engine_->settled(); }

// Every rank computes the order of examples from its own token counts. With other counts it would
// have another order, and train on what is held out elsewhere. So it would with other tokens, as
// those of files of one size in another order.
absl::Status TorchReplica::CompareData() {
  std::vector<int64_t> facts;
  for (const DataFacts& of : family_->data) {
    facts.push_back(of.units);
    facts.push_back(std::bit_cast<int64_t>(of.sample));
  }
  LH_ASSIGN_OR_RETURN(const auto of_ranks, AllGather(facts));
  for (size_t rank = 1; rank < of_ranks.size(); ++rank) {
    const int node = NodeOf(static_cast<int>(rank), ranks_of_node_);
    for (size_t source = 0; source < family_->data.size(); ++source) {
      const auto* const first = &of_ranks[0][2 * source];
      const auto* const here = &of_ranks[rank][2 * source];
      if (here[0] == first[0] && here[1] == first[1]) continue;
      const std::string what =
          here[0] != first[0]
              ? absl::StrFormat(
                    "has %d %s on node %d of this pool (rank %d), and %d on node 0 (rank 0)",
                    here[0], family_->unit_name, node, rank, first[0])
              : absl::StrFormat(
                    "has other %s on node %d of this pool (rank %d) than on node 0 (rank 0), "
                    "though as many (%d): the files differ, or their order",
                    family_->unit_name, node, rank, first[0]);
      return AboutField("data", absl::FailedPreconditionError(
                                    absl::StrCat(family_->data[source].path, " ", what)));
    }
  }
  return absl::OkStatus();
}

// Says what it takes before the first evaluation begins. The activations are allocated by then.
absl::Status TorchReplica::PrepareEvaluationBeside() {
  if (plan_.device != DeviceKind::kCpu)
    return absl::UnimplementedError("evaluation alongside training is built for device CPU only");
  const EvaluationBeside& beside = plan_.evaluation_beside;
  // All held-out batches are as large.
  LH_ASSIGN_OR_RETURN(const ExampleBatch batch, batches_->TakeHeldOut(0, plan_.eval_batches));
  LH_ASSIGN_OR_RETURN(const StagedBatch share, family_->stager->Stage(batch, 0, 1));
  LH_ASSIGN_OR_RETURN(const EvaluationMemory memory, engine_->PrepareEvaluationBeside(share));
  const EvaluationNeed need{
      .copies = beside.evaluations, .copy = memory.snapshot, .activations = memory.activations};
  evaluation_bytes_ = need.total();
  int64_t available = beside.host_bytes;
  if (available == 0) {
    LH_ASSIGN_OR_RETURN(available, AvailableMemory());
  }
  const int of_node =
      ranks_of_node_.empty() ? ranks() : ranks_of_node_[NodeOf(rank(), ranks_of_node_)];
  LH_RETURN_IF_ERROR(CheckEvaluationMemory(need, of_node, available));
  evaluating_ = std::make_unique<EvaluationThread>(plan_.eval_batches, patience_);
  return absl::OkStatus();
}

absl::Status TorchReplica::BeginEvaluation() {
  LH_CHECK(begun_ < EvaluationsBeside(), "too many evaluations at a time");
  LH_ASSIGN_OR_RETURN(EvaluatedWeights copied, engine_->CopyWeights());
  ++begun_;
  evaluating_->Begin([this, weights = std::make_shared<EvaluatedWeights>(std::move(copied))](
                         int64_t index) -> absl::StatusOr<std::vector<double>> {
    LH_ASSIGN_OR_RETURN(const ExampleBatch batch, batches_->TakeHeldOut(index, plan_.eval_batches));
    LH_ASSIGN_OR_RETURN(StagedBatch share, family_->stager_beside->Stage(batch, 0, 1));
    absl::StatusOr<std::vector<double>> sums = engine_->EvaluateBeside(*weights, std::move(share));
    LH_RETURN_IF_ERROR(batches_->Check());
    return sums;
  });
  return absl::OkStatus();
}

absl::StatusOr<std::optional<EvalStats>> TorchReplica::TakeEvaluation(bool wait) {
  LH_CHECK(begun_ > 0, "no evaluation was begun");
  if (!wait) {
    LH_ASSIGN_OR_RETURN(const auto done, AllGather({evaluating_->Done() ? 1 : 0}));
    for (const std::vector<int64_t>& rank : done) {
      if (rank[0] == 0) return std::optional<EvalStats>();
    }
  }
  --begun_;
  LH_ASSIGN_OR_RETURN(const auto of_batches, evaluating_->Take());
  std::vector<double> sums;
  for (const auto& of_batch : of_batches) sums.insert(sums.end(), of_batch.begin(), of_batch.end());
  LH_RETURN_IF_ERROR(engine_->Sum(absl::MakeSpan(sums)));
  return std::optional<EvalStats>(StatsOf(sums, held_out_weight_));
}

absl::StatusOr<std::vector<double>> TorchReplica::SumsOver(TakeBatch take) {
  std::vector<double> sums;
  for (int64_t index = 0; index < plan_.eval_batches; ++index) {
    LH_ASSIGN_OR_RETURN(const ExampleBatch batch, take(index));
    LH_ASSIGN_OR_RETURN(StagedBatch share, family_->stager->Stage(batch, 0, 1));
    const absl::StatusOr<std::vector<double>> of_batch = engine_->Evaluate(std::move(share));
    // Data that has changed is why the model failed.
    LH_RETURN_IF_ERROR(batches_->Check());
    LH_RETURN_IF_ERROR(of_batch.status());
    sums.insert(sums.end(), of_batch->begin(), of_batch->end());
  }
  return sums;
}

absl::StatusOr<EvalStats> TorchReplica::Evaluate() {
  LH_ASSIGN_OR_RETURN(const std::vector<double> sums, SumsOver([&](int64_t index) {
                        return batches_->TakeHeldOut(index, plan_.eval_batches);
                      }));
  return StatsOf(sums, held_out_weight_);
}

absl::StatusOr<std::vector<NamedValue>> TorchReplica::EvaluateTest() {
  const int64_t weight = batches_->TestWeight();
  if (weight == 0) return std::vector<NamedValue>();
  LH_ASSIGN_OR_RETURN(const std::vector<double> sums, SumsOver([&](int64_t index) {
                        return batches_->TakeTest(index, plan_.eval_batches);
                      }));
  std::vector<NamedValue> metrics = {{"test_examples", static_cast<double>(weight)}};
  for (const NamedValue& metric : StatsOf(sums, weight).metrics)
    metrics.push_back({absl::StrCat("test_", metric.name), metric.value});
  return metrics;
}

int64_t TorchReplica::EvaluationSteps() const { return family_->evaluation_steps; }

// `sums`: over all ranks, batch by batch.
EvalStats TorchReplica::StatsOf(absl::Span<const double> sums, int64_t weight) const {
  EvalStats stats{.tokens = std::max<int64_t>(1, weight)};
  const std::vector<std::string> names = engine_->model().metrics();
  std::vector<double> totals(names.size() + static_cast<size_t>(engine_->model().counts()));
  for (size_t at = 0; at < sums.size(); ++at) totals[at % totals.size()] += sums[at];
  for (size_t i = 0; i < names.size(); ++i)
    stats.metrics.push_back({names[i], totals[i] / static_cast<double>(stats.tokens)});
  stats.loss = stats.metrics[0].value;
  engine_->model().Derive(stats.metrics, absl::MakeConstSpan(totals).subspan(names.size()));
  return stats;
}

absl::Status TorchReplica::Read(int unit, int64_t offset, absl::Span<float> out) {
  return engine_->Read(unit, offset, out);
}

absl::Status TorchReplica::Write(int unit, int64_t offset, absl::Span<const float> in) {
  return engine_->Write(unit, offset, in);
}

const float* TorchReplica::DeviceParameters(int unit, int64_t offset) const {
  return engine_->DeviceParameters(unit, offset);
}

absl::Status TorchReplica::Publish(absl::Span<const int> units) { return engine_->Publish(units); }

absl::StatusOr<std::vector<std::vector<int64_t>>> TorchReplica::AllGather(
    absl::Span<const int64_t> values) {
  return engine_->GatherNumbers(values);
}

}  // namespace longhaul
