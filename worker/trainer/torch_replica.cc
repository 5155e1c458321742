#include "worker/trainer/torch_replica.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <utility>

#include "ATen/Parallel.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/base/status_marks.h"
#include "common/io/available_memory.h"
#include "worker/data/data_sample.h"
#include "worker/data/prefetched_batches.h"
#include "worker/data/token_batches.h"
#include "worker/engine/device.h"
#include "worker/engine/engine.h"
#include "worker/engine/optimizer_factory.h"
#include "worker/engine/torch_status.h"
#include "worker/family/language/language_stager.h"
#include "worker/kernels/cuda/block_kernels.h"
#include "worker/model/transformer_lm.h"
#include "worker/offload/host_memory.h"

namespace longhaul {
namespace {

absl::StatusOr<TorchReplica::OpenedData> OpenData(const TorchReplica::Options& options) {
  TorchReplica::OpenedData opened;
  std::vector<WeightedSource> sources = options.sources;
  if (sources.empty()) sources.push_back({.source = {.path = options.data_path}});
  std::vector<std::unique_ptr<Dataset>> datasets;
  std::vector<ExamplePlan::Source> planned;
  for (auto& [source, weight] : sources) {
    source.documents = options.separate_documents;
    source.row_tokens = options.shape.context + 1;
    LH_ASSIGN_OR_RETURN(std::unique_ptr<Dataset> dataset,
                        OpenSource(source, options.shape.vocab, options.token_work));
    planned.push_back({.name = source.path,
                       .tokens = dataset->tokens(),
                       .weight = weight,
                       .row = dataset->row()});
    opened.masked = opened.masked || dataset->masked();
    LH_ASSIGN_OR_RETURN(const uint64_t sample, SampleOf(*dataset));
    opened.facts.push_back({.path = source.path, .tokens = dataset->tokens(), .sample = sample});
    datasets.push_back(std::move(dataset));
  }
  LH_ASSIGN_OR_RETURN(const ExamplePlan plan,
                      ExamplePlan::Create({.sources = std::move(planned),
                                           .order = options.order,
                                           .context = options.shape.context,
                                           .batch = options.batch,
                                           .eval_fraction = options.eval_fraction,
                                           .seed = options.seed,
                                           .pool = options.pool}));
  const bool alone = options.communicator == nullptr;
  const TokenBatches::Options share = {.context = options.shape.context,
                                       .batch = options.batch,
                                       .rank = alone ? 0 : options.communicator->rank(),
                                       .ranks = alone ? 1 : options.communicator->size(),
                                       .separate_documents = options.separate_documents};
  opened.batches = std::make_unique<PrefetchedBatches>(
      std::make_unique<TokenBatches>(share, std::move(datasets), plan), options.patience);
  LH_ASSIGN_OR_RETURN(opened.held_out_weight, opened.batches->HeldOutWeight(options.eval_batches));
  return opened;
}

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

absl::StatusOr<at::Device> OpenDevice(const TorchReplica::Options& options) {
  if (options.device == DeviceKind::kCuda) return OpenCudaDevice(options.device_index);
  return at::Device(at::kCPU);
}

absl::StatusOr<at::ScalarType> ComputeType(const TorchReplica::Options& options) {
  const bool cuda = options.device == DeviceKind::kCuda;
  if (options.precision == ComputePrecision::kFloat32) return at::kFloat;
  if (options.precision == ComputePrecision::kDefault) return cuda ? at::kBFloat16 : at::kFloat;
  return at::kBFloat16;
}

Blocks BlocksOf(BlockKind kind) {
  switch (kind) {
    case BlockKind::kFused:
      return Blocks::kFused;
    case BlockKind::kAutograd:
      return Blocks::kAutograd;
    default:
      return Blocks::kAuto;
  }
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

OffloadOptions OffloadOf(const OffloadSettings& settings) {
  return {.optimizer = settings.optimizer,
          .parameters = settings.parameters,
          .schedule = {.stride = settings.stride, .device_share = settings.device_share},
          .subgroup_elements = settings.subgroup_elements,
          .profile_path = settings.profile_path};
}

absl::StatusOr<std::unique_ptr<Engine>> MakeEngine(const TorchReplica::Options& options) {
  return CatchTorch("preparing torch", [&]() -> absl::StatusOr<std::unique_ptr<Engine>> {
    SetThreads(options.threads);
    LH_ASSIGN_OR_RETURN(const at::ScalarType compute, ComputeType(options));
    LH_ASSIGN_OR_RETURN(const at::Device device, OpenDevice(options));
    const BlockKernels* kernels = nullptr;
    if (device.is_cuda() && options.blocks == BlockKind::kAuto) {
      LH_ASSIGN_OR_RETURN(kernels, LoadCudaBlockKernels());
    }
    std::unique_ptr<GraphRecorder> graphs;
    if (options.cuda_graphs) {
      LH_ASSIGN_OR_RETURN(graphs, MakeCudaGraphRecorder(device));
    }
    LH_ASSIGN_OR_RETURN(std::unique_ptr<TransformerLm> model,
                        TransformerLm::Create(options.shape, device, kernels));
    return Engine::Create({.model = std::move(model),
                           .link = {.communicator = options.communicator,
                                    .ranks_of_node = options.ranks_of_node,
                                    .on_device = options.communicator_on_device,
                                    .timeout = options.collective_timeout},
                           .partition = options.partition,
                           .device = device,
                           .compute = compute,
                           .optimizer = options.optimizer,
                           .clip_norm = options.clip_norm,
                           .seed = options.seed,
                           .initial = options.initial,
                           .threads = options.threads,
                           .team = options.team,
                           .accumulation = options.accumulation,
                           .recompute = options.recompute,
                           .blocks = BlocksOf(options.blocks),
                           .graphs = std::move(graphs),
                           .gathers_ahead = options.gathers_ahead,
                           .offload = OffloadOf(options.offload),
                           .patience = options.patience,
                           .trace_path = options.trace_path});
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<TorchReplica>> TorchReplica::Create(const Options& options) {
  LH_CHECK(options.threads > 0 && options.batch > 0 && options.eval_batches > 0,
           "counts must be positive");
  LH_RETURN_IF_ERROR(LayOutTransformer(options.shape).status());
  LH_ASSIGN_OR_RETURN(OpenedData data, OpenData(options));
  LH_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, MakeEngine(options));
  std::unique_ptr<TorchReplica> replica(
      new TorchReplica(options, std::move(data), std::move(engine)));
  LH_RETURN_IF_ERROR(replica->CompareData());
  if (options.evaluation_beside.evaluations > 0)
    LH_RETURN_IF_ERROR(replica->PrepareEvaluationBeside());
  return replica;
}

TorchReplica::TorchReplica(const Options& options, OpenedData data, std::unique_ptr<Engine> engine)
    : options_(options),
      batches_(std::move(data.batches)),
      data_(std::move(data.facts)),
      held_out_weight_(data.held_out_weight),
      masked_(data.masked),
      engine_(std::move(engine)),
      stager_(new LanguageStager(options.shape.context, engine_->device())),
      stager_beside_(new LanguageStager(options.shape.context, engine_->device())) {}

TorchReplica::~TorchReplica() = default;

const ModelLayout& TorchReplica::layout() const { return engine_->layout(); }
int TorchReplica::rank() const { return engine_->exchange().rank(); }
int TorchReplica::ranks() const { return engine_->exchange().ranks(); }
std::string TorchReplica::Describe() const {
  const bool on_cpu = options_.device == DeviceKind::kCpu;
  std::string line = DescribeOptimizer(options_.optimizer, layout(), on_cpu);
  if (options_.cuda_graphs) absl::StrAppend(&line, "; CUDA graphs");
  if (options_.separate_documents) absl::StrAppend(&line, "; attention keeps to documents");
  if (masked_) absl::StrAppend(&line, "; the loss is on what the assistant wrote");
  if (const UpdateSchedule* schedule = engine_->schedule(); schedule != nullptr) {
    absl::StrAppend(&line, "; offloaded: ", schedule->Describe(), ", ",
                    engine_->state_bytes().host >> 20, " MiB of each rank in host memory",
                    on_cpu ? " (the device is emulated: that saves nothing)" : "");
  }
  if (evaluating_ != nullptr) {
    absl::StrAppend(&line, "; evaluates alongside training, with ", evaluation_bytes_ >> 20,
                    " MiB of each rank at most",
                    options_.blocks == BlockKind::kAutograd ? " and what autograd computes" : "");
  }
  return line;
}
BlockRange TorchReplica::OwnedBlocks(int unit) const { return engine_->plan().OwnedBlocks(unit); }

absl::StatusOr<StepStats> TorchReplica::Step(int64_t step) {
  const auto start = std::chrono::steady_clock::now();
  LH_ASSIGN_OR_RETURN(const ExampleBatch batch, batches_->Take(step));
  batches_->Prepare(step + 1);
  const double learning_rate = options_.learning_rate.At(step);
  const auto stage = [&](int micro, int of) { return stager_->Stage(batch, micro, of); };
  const auto weight = static_cast<double>(batch.pool_weight);
  LH_ASSIGN_OR_RETURN(const StepResult result, engine_->Step(stage, weight, learning_rate));
  return StepStats{
      .loss = result.loss_sum / std::max(1.0, weight),
      .tokens = options_.batch * options_.shape.context,
      .target_tokens = masked_ ? batch.pool_weight : 0,
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
  for (const DataFacts& of : data_) {
    facts.push_back(of.tokens);
    facts.push_back(std::bit_cast<int64_t>(of.sample));
  }
  LH_ASSIGN_OR_RETURN(const auto of_ranks, AllGather(facts));
  for (size_t rank = 1; rank < of_ranks.size(); ++rank) {
    const int node = NodeOf(static_cast<int>(rank), options_.ranks_of_node);
    for (size_t source = 0; source < data_.size(); ++source) {
      const auto* const first = &of_ranks[0][2 * source];
      const auto* const here = &of_ranks[rank][2 * source];
      if (here[0] == first[0] && here[1] == first[1]) continue;
      const std::string what =
          here[0] != first[0]
              ? absl::StrFormat(
                    "has %d tokens on node %d of this pool (rank %d), and %d on node 0 (rank 0)",
                    here[0], node, rank, first[0])
              : absl::StrFormat(
                    "has other tokens on node %d of this pool (rank %d) than on node 0 (rank 0), "
                    "though as many (%d): the files differ, or their order",
                    node, rank, first[0]);
      return AboutField("data",
                        absl::FailedPreconditionError(absl::StrCat(data_[source].path, " ", what)));
    }
  }
  return absl::OkStatus();
}

// Says what it takes before the first evaluation begins. The activations are allocated by then.
absl::Status TorchReplica::PrepareEvaluationBeside() {
  if (options_.device != DeviceKind::kCpu)
    return absl::UnimplementedError("evaluation alongside training is built for device CPU only");
  const EvaluationBeside& beside = options_.evaluation_beside;
  // All held-out batches are as large.
  LH_ASSIGN_OR_RETURN(const ExampleBatch batch, batches_->TakeHeldOut(0, options_.eval_batches));
  LH_ASSIGN_OR_RETURN(const StagedBatch share, stager_->Stage(batch, 0, 1));
  LH_ASSIGN_OR_RETURN(const EvaluationMemory memory, engine_->PrepareEvaluationBeside(share));
  const EvaluationNeed need{
      .copies = beside.evaluations, .copy = memory.snapshot, .activations = memory.activations};
  evaluation_bytes_ = need.total();
  int64_t available = beside.host_bytes;
  if (available == 0) {
    LH_ASSIGN_OR_RETURN(available, AvailableMemory());
  }
  int of_node = ranks(), first = 0;
  for (const int size : options_.ranks_of_node) {
    if (rank() >= first && rank() < first + size) of_node = size;
    first += size;
  }
  LH_RETURN_IF_ERROR(CheckEvaluationMemory(need, of_node, available));
  evaluating_ = std::make_unique<EvaluationThread>(options_.eval_batches, options_.patience);
  return absl::OkStatus();
}

absl::Status TorchReplica::BeginEvaluation() {
  LH_CHECK(begun_ < EvaluationsBeside(), "too many evaluations at a time");
  LH_ASSIGN_OR_RETURN(EvaluatedWeights copied, engine_->CopyWeights());
  ++begun_;
  evaluating_->Begin([this, weights = std::make_shared<EvaluatedWeights>(std::move(copied))](
                         int64_t index) -> absl::StatusOr<std::vector<double>> {
    LH_ASSIGN_OR_RETURN(const ExampleBatch batch,
                        batches_->TakeHeldOut(index, options_.eval_batches));
    LH_ASSIGN_OR_RETURN(StagedBatch share, stager_beside_->Stage(batch, 0, 1));
    return engine_->EvaluateBeside(*weights, std::move(share));
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
  return std::optional<EvalStats>(StatsOf(sums));
}

absl::StatusOr<EvalStats> TorchReplica::Evaluate() {
  std::vector<double> sums;
  for (int64_t index = 0; index < options_.eval_batches; ++index) {
    LH_ASSIGN_OR_RETURN(const ExampleBatch batch,
                        batches_->TakeHeldOut(index, options_.eval_batches));
    LH_ASSIGN_OR_RETURN(StagedBatch share, stager_->Stage(batch, 0, 1));
    LH_ASSIGN_OR_RETURN(const std::vector<double> of_batch, engine_->Evaluate(std::move(share)));
    sums.insert(sums.end(), of_batch.begin(), of_batch.end());
  }
  return StatsOf(sums);
}

// `sums`: over all ranks, batch by batch.
EvalStats TorchReplica::StatsOf(absl::Span<const double> sums) const {
  const int64_t tokens = std::max<int64_t>(1, held_out_weight_);
  EvalStats stats{.tokens = tokens};
  const std::vector<std::string> names = engine_->model().metrics();
  for (size_t i = 0; i < names.size(); ++i) {
    double sum = 0;
    for (size_t at = i; at < sums.size(); at += names.size()) sum += sums[at];
    stats.metrics.push_back({names[i], sum / static_cast<double>(tokens)});
  }
  stats.loss = stats.metrics[0].value;
  stats.metrics.push_back({"perplexity", std::exp(stats.loss)});
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
