#include "worker/trainer/torch_replica.h"

#include <chrono>
#include <cmath>

#include "ATen/Parallel.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "worker/data/prefetched_batches.h"
#include "worker/data/token_batches.h"
#include "worker/engine/device.h"
#include "worker/engine/engine.h"
#include "worker/engine/optimizer_factory.h"
#include "worker/engine/torch_status.h"
#include "worker/model/transformer_lm.h"

namespace longhaul {
namespace {

absl::StatusOr<std::unique_ptr<BatchSource>> OpenBatches(const TorchReplica::Options& options) {
  std::vector<WeightedSource> sources = options.sources;
  if (sources.empty()) sources.push_back({.source = {.path = options.data_path}});
  std::vector<std::unique_ptr<Dataset>> datasets;
  std::vector<ExamplePlan::Source> planned;
  for (const auto& [source, weight] : sources) {
    LH_ASSIGN_OR_RETURN(std::unique_ptr<Dataset> dataset,
                        OpenSource(source, options.shape.vocab, options.token_work));
    planned.push_back({.name = source.path, .tokens = dataset->tokens(), .weight = weight});
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
                                       .vocab = options.shape.vocab,
                                       .rank = alone ? 0 : options.communicator->rank(),
                                       .ranks = alone ? 1 : options.communicator->size()};
  return std::make_unique<PrefetchedBatches>(
      std::make_unique<TokenBatches>(share, std::move(datasets), plan));
}

TokenBatch TokensOf(const ExampleBatch& batch, int64_t context) {
  return {batch.examples, context, batch.tensors.front().values};
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
    LH_ASSIGN_OR_RETURN(std::unique_ptr<TransformerLm> model,
                        TransformerLm::Create(options.shape, device));
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
                           .accumulation = options.accumulation,
                           .recompute = options.recompute,
                           .blocks = BlocksOf(options.blocks),
                           .offload = OffloadOf(options.offload),
                           .trace_path = options.trace_path});
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<TorchReplica>> TorchReplica::Create(const Options& options) {
  LH_CHECK(options.threads > 0 && options.batch > 0 && options.eval_batches > 0,
           "counts must be positive");
  LH_RETURN_IF_ERROR(LayOutTransformer(options.shape).status());
  LH_ASSIGN_OR_RETURN(std::unique_ptr<BatchSource> batches, OpenBatches(options));
  LH_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, MakeEngine(options));
  return std::unique_ptr<TorchReplica>(
      new TorchReplica(options, std::move(batches), std::move(engine)));
}

TorchReplica::TorchReplica(const Options& options, std::unique_ptr<BatchSource> batches,
                           std::unique_ptr<Engine> engine)
    : options_(options), batches_(std::move(batches)), engine_(std::move(engine)) {}

TorchReplica::~TorchReplica() = default;

const ModelLayout& TorchReplica::layout() const { return engine_->layout(); }
int TorchReplica::rank() const { return engine_->exchange().rank(); }
int TorchReplica::ranks() const { return engine_->exchange().ranks(); }
std::string TorchReplica::Describe() const {
  const bool on_cpu = options_.device == DeviceKind::kCpu;
  std::string line = DescribeOptimizer(options_.optimizer, layout(), on_cpu);
  if (const UpdateSchedule* schedule = engine_->schedule(); schedule != nullptr) {
    absl::StrAppend(&line, "; offloaded: ", schedule->Describe(), ", ",
                    engine_->state_bytes().host >> 20, " MiB of each rank in host memory",
                    on_cpu ? " (the device is emulated: that saves nothing)" : "");
  }
  return line;
}
BlockRange TorchReplica::OwnedBlocks(int unit) const { return engine_->plan().OwnedBlocks(unit); }

absl::StatusOr<StepStats> TorchReplica::Step(int64_t step) {
  const auto start = std::chrono::steady_clock::now();
  LH_ASSIGN_OR_RETURN(const ExampleBatch batch, batches_->Take(step));
  batches_->Prepare(step + 1);
  const int64_t pool_tokens = options_.batch * options_.shape.context;
  const double learning_rate = options_.learning_rate.At(step);
  LH_ASSIGN_OR_RETURN(
      const StepResult result,
      engine_->Step(TokensOf(batch, options_.shape.context), pool_tokens, learning_rate));
  const auto received = [&](Use use) {
    return InPoolBytes{.pair = result.received.Total(use, Level::kPair),
                       .node = result.received.Total(use, Level::kNode),
                       .pool = result.received.Total(use, Level::kPool)};
  };
  return StepStats{
      .loss = result.loss_sum / static_cast<double>(pool_tokens),
      .tokens = pool_tokens,
      .gradient_norm = result.gradient_norm,
      .learning_rate = learning_rate,
      .skipped = result.skipped,
      .compute_seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
      .received = {.forward = received(Use::kForward),
                   .backward = received(Use::kBackward),
                   .gradient = received(Use::kGradient),
                   .refresh = received(Use::kRefresh)},
      .weights_nmse = result.weights_nmse,
      .gradients_nmse = result.gradients_nmse};
}

absl::StatusOr<EvalStats> TorchReplica::Evaluate() {
  const int64_t context = options_.shape.context;
  double sum = 0;
  for (int64_t index = 0; index < options_.eval_batches; ++index) {
    LH_ASSIGN_OR_RETURN(const ExampleBatch batch,
                        batches_->TakeHeldOut(index, options_.eval_batches));
    LH_ASSIGN_OR_RETURN(const double loss_sum, engine_->LossSum(TokensOf(batch, context)));
    sum += loss_sum;
  }
  const int64_t tokens = options_.eval_batches * options_.batch * context;
  const double loss = sum / static_cast<double>(tokens);
  return EvalStats{
      .loss = loss, .tokens = tokens, .metrics = {{"loss", loss}, {"perplexity", std::exp(loss)}}};
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
