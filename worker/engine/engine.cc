#include "worker/engine/engine.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "ATen/ops/cat.h"
#include "ATen/ops/linalg_vector_norm.h"
#include "ATen/ops/scalar_tensor.h"
#include "ATen/ops/stack.h"
#include "ATen/ops/zeros.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/base/status_marks.h"
#include "worker/engine/device.h"
#include "worker/engine/optimizer_factory.h"
#include "worker/engine/segmented_pass.h"
#include "worker/engine/tensor_span.h"
#include "worker/engine/torch_status.h"
#include "worker/engine/weight_stream.h"
#include "worker/model/initialization.h"
#include "worker/optim/clipping.h"
#include "worker/optim/squared_norm.h"

namespace longhaul {
namespace {

// So many units may wait for their reduction, each with a buffer, while backward computes the next
// gradient: one that is being reduced, and one after it.
constexpr size_t kUnitsUnderWay = 2;

// The partition map without settings that have no effect in this pool. A matrix that is updated
// whole has one owner in any case: the bits of its products depend on the processor, so ranks of
// different machines that all updated it would come to differ.
PartitionMap Fit(const Engine::Options& options, const Topology& topology) {
  PartitionMap wanted = options.plan.partition;
  if (CutRuleOf(options.plan.optimizer) == CutRule::kMatrices) wanted.optimizer = Level::kPool;
  PartitionMap map = Normalized(wanted, topology);
  // Weights in host memory are copied to the device unit by unit, in the same way as gathered ones.
  // So they count as split even in a pool of one rank.
  if (options.plan.offload.parameters && map.weights.level == Level::kRank) {
    map.weights = {.level = wanted.weights.level};
    map.optimizer = wanted.optimizer;
  }
  return map;
}

// Refuses what the optimizer cannot do, whatever the job's spec says.
absl::Status CheckOptimizer(const Engine::Options& options) {
  if (!std::holds_alternative<OneBitAdamOptions>(options.plan.optimizer)) return absl::OkStatus();
  if (!options.device.is_cpu())
    return absl::UnimplementedError("1-bit Adam is built for device CPU only");
  if (!options.plan.partition.replicates()) {
    return absl::UnimplementedError(
        "1-bit Adam needs everything on every rank, unquantized (partition preset ddp)");
  }
  return absl::OkStatus();
}

at::ScalarType ComputeType(const TrainingPlan& plan) {
  return plan.precision == ComputePrecision::kBfloat16 ? at::kBFloat16 : at::kFloat;
}

std::unique_ptr<MomentumExchange> MomentumExchangeOf(const ModelLayout& layout,
                                                     const ShardPlan& plan, PoolExchange& exchange,
                                                     Optimizer& optimizer) {
  auto* const onebit = dynamic_cast<OneBitAdam*>(&optimizer);
  if (onebit == nullptr) return nullptr;
  return std::make_unique<MomentumExchange>(layout, plan, exchange, *onebit);
}

std::unique_ptr<FusedPass> MakeFused(const Model& model, const Engine::Options& options) {
  return options.plan.blocks == Blocks::kAutograd ? nullptr
                                                  : model.MakeFusedPass(ComputeType(options.plan));
}

// With AUTO, where there is something to choose: the sum over the ranks, so that all choose the
// same.
absl::StatusOr<ProductTimes> TimeProducts(const Engine::Options& options, PoolExchange& exchange) {
  if (options.plan.blocks != Blocks::kAuto || !options.device.is_cpu() ||
      options.model->MakeFusedPass(ComputeType(options.plan)) == nullptr) {
    return ProductTimes{};
  }
  const ProductTimes mine = MeasureProducts(options.model->layout(), ComputeType(options.plan));
  if (mine.ours_ns == 0) return mine;
  LH_ASSIGN_OR_RETURN(const auto times, exchange.Gather({mine.ours_ns, mine.torch_ns}));
  ProductTimes sum;
  for (const std::vector<int64_t>& of_rank : times) {
    sum.ours_ns += of_rank[0];
    sum.torch_ns += of_rank[1];
  }
  return sum;
}

HostWeights HostWeightsOf(const OffloadPlan& options, const OffloadDevice& device) {
  return {.movement = device.movement.get(),
          .masters = options.optimizer,
          .weights = options.parameters};
}

int RanksOfNode(const Topology& topology, int rank) {
  return static_cast<int>(topology.Group(Level::kNode, rank).size());
}

absl::Status CheckOffload(const Engine::Options& options, const PoolExchange& exchange) {
  if (std::holds_alternative<OneBitAdamOptions>(options.plan.optimizer))
    return absl::UnimplementedError("offload: not with 1-bit Adam");
  if (options.plan.offload.parameters && options.plan.partition.weights.level == Level::kRank) {
    return absl::InvalidArgumentError(
        "offload.parameters: the partition leaves the weights on every rank whole");
  }
  const ModelLayout& layout = options.model->layout();
  const ShardPlan plan(layout, options.plan.partition, exchange.topology(), exchange.rank(),
                       CutRuleOf(options.plan.optimizer), options.plan.offload.subgroup_elements);
  return CheckOffloadMemory(layout, plan, options.plan.offload, options.plan.optimizer,
                            options.device, ComputeType(options.plan) == at::kFloat,
                            RanksOfNode(exchange.topology(), exchange.rank()));
}

// The outcome of a work that each rank did by itself: this rank's fault, or the first other rank's.
// `codes`: gathered, the code of each. `failed` goes on after "rank 3 ".
absl::Status OutcomeOfAll(const absl::Status& mine, const std::vector<std::vector<int64_t>>& codes,
                          absl::string_view failed) {
  LH_RETURN_IF_ERROR(mine);
  for (size_t rank = 0; rank < codes.size(); ++rank) {
    if (codes[rank][0] != 0)
      return MarkPeerFault(absl::UnavailableError(absl::StrCat("rank ", rank, " ", failed)));
  }
  return absl::OkStatus();
}

// All ranks look at the memory before any of them takes some: a rank of the same node that came
// later would count that as missing. A rank for which there is too little tells the others, so that
// none waits for it.
absl::Status CheckOffloadTogether(const Engine::Options& options, PoolExchange& exchange) {
  const absl::Status mine = CheckOffload(options, exchange);
  LH_ASSIGN_OR_RETURN(const auto codes, exchange.Gather({static_cast<int64_t>(mine.code())}));
  return OutcomeOfAll(mine, codes, "cannot offload its state");
}

// A rank that is alone gathers its weights, too, if they come from host memory: beside what the
// device computes.
std::unique_ptr<StreamQueue> MakeQueue(const PoolExchange& exchange, const Engine::Options& options,
                                       Trace* trace) {
  return exchange.ranks() > 1 || options.plan.offload.parameters
             ? MakeStreamQueue(options.device, {.trace = trace, .patience = options.site.patience})
             : MakeImmediateQueue();
}

int BitsOf(at::ScalarType compute) { return compute == at::kFloat ? 32 : 16; }

double Nmse(double error, double signal) { return signal > 0 ? error / signal : 0; }

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(Options options) {
  return CatchTorch("creating the engine", [&]() -> absl::StatusOr<std::unique_ptr<Engine>> {
    LH_CHECK(options.plan.accumulation > 0 && options.plan.gathers_ahead >= 0 &&
                 options.site.threads > 0,
             "counts must be positive");
    LH_RETURN_IF_ERROR(CheckOptimizer(options));
    LH_ASSIGN_OR_RETURN(
        std::unique_ptr<PoolExchange> exchange,
        PoolExchange::Create(options.site.link, options.plan.partition, options.device));
    options.plan.partition = Fit(options, exchange->topology());
    LH_ASSIGN_OR_RETURN(const ProductTimes products, TimeProducts(options, *exchange));
    if (products.ours_are_slower()) options.plan.blocks = Blocks::kAutograd;
    if (options.plan.partition.quantizes() && !options.device.is_cpu() &&
        options.kernels == nullptr) {
      LH_ASSIGN_OR_RETURN(options.kernels, LoadCudaSegmentKernels());
    }
    if (CutRuleOf(options.plan.optimizer) == CutRule::kMatrices &&
        CountMatrices(options.model->layout()).matrices == 0) {
      return absl::InvalidArgumentError(
          "inner.muon: the model has no hidden matrix, so it would update nothing; use "
          "inner.adamw");
    }
    std::unique_ptr<Trace> trace;
    if (!options.site.trace_path.empty()) {
      LH_ASSIGN_OR_RETURN(trace, Trace::Create(options.site.trace_path, exchange->rank()));
    }
    OffloadDevice offload_device;
    if (options.plan.offload.optimizer) {
      LH_RETURN_IF_ERROR(CheckOffloadTogether(options, *exchange));
      LH_ASSIGN_OR_RETURN(offload_device,
                          OpenOffloadDevice(options.device, options.plan.offload,
                                            options.plan.optimizer, options.site.patience));
    }
    std::unique_ptr<const Model> model = std::move(options.model);
    std::unique_ptr<GraphRecorder> graphs = std::move(options.graphs);
    std::unique_ptr<Engine> engine(new Engine(options, std::move(model), std::move(exchange),
                                              std::move(trace), std::move(offload_device)));
    if (engine->fused_ == nullptr && options.plan.blocks == Blocks::kFused) {
      return absl::UnimplementedError(
          "train.blocks: FUSED is built for transformers on device CPU only; use AUTO");
    }
    if (graphs != nullptr) {
      if (engine->weights_.split() || engine->gradients_.split() ||
          options.plan.offload.optimizer || engine->fused_ != nullptr) {
        return absl::UnimplementedError(
            "train.cuda_graphs: needs autograd, and whole weights and gradients on each rank's "
            "device (partition preset ddp or zero1, no offload)");
      }
      engine->graphed_ = std::make_unique<GraphedPass>(
          *engine->model_, engine->weights_, std::move(graphs), [raw = engine.get()] {
            // Where ranks meet on the device, it may be in a collective, which has a deadline.
            return raw->exchange_->works_on_device() ? absl::OkStatus()
                                                     : raw->AwaitOwnWork("recording a pass");
          });
    }
    engine->product_times_ = products;
    LH_RETURN_IF_ERROR(engine->MakeOptimizer(options.plan));
    if (options.initial != nullptr) {
      LH_RETURN_IF_ERROR(engine->Initialize(*options.initial));
    } else {
      LH_RETURN_IF_ERROR(engine->Initialize(SeedParameters(*engine->model_, options.plan.seed)));
    }
    return engine;
  });
}

Engine::Engine(const Options& options, std::unique_ptr<const Model> model,
               std::unique_ptr<PoolExchange> exchange, std::unique_ptr<Trace> trace,
               OffloadDevice offload_device)
    : model_(std::move(model)),
      device_(options.device),
      clip_norm_(options.plan.clip_norm),
      patience_(options.site.patience),
      accumulation_(options.plan.accumulation),
      gathers_ahead_(options.plan.gathers_ahead),
      recompute_(options.plan.recompute),
      trace_(std::move(trace)),
      exchange_(std::move(exchange)),
      offload_device_(std::move(offload_device)),
      plan_(model_->layout(), options.plan.partition, exchange_->topology(), exchange_->rank(),
            CutRuleOf(options.plan.optimizer),
            options.plan.offload.optimizer ? options.plan.offload.subgroup_elements : 0),
      weights_(model_->layout(), plan_, *exchange_, device_, ComputeType(options.plan),
               HostWeightsOf(options.plan.offload, offload_device_), options.kernels),
      gradients_(model_->layout(), plan_, device_),
      reduction_(model_->layout(), plan_, *exchange_, device_, BitsOf(ComputeType(options.plan)),
                 options.kernels),
      compute_(ComputeType(options.plan)),
      fused_(MakeFused(*model_, options)),
      team_(options.site.team ? options.site.team
                              : std::make_shared<ThreadTeam>(options.site.threads)),
      own_queue_(options.queue != nullptr ? nullptr : MakeQueue(*exchange_, options, trace_.get())),
      queue_(options.queue != nullptr ? options.queue : own_queue_.get()) {}

Engine::~Engine() = default;

absl::Status Engine::MakeOptimizer(const TrainingPlan& plan) {
  const OptimizerOptions& options = plan.optimizer;
  const OffloadPlan& offload = plan.offload;
  std::vector<SubgroupShape> shapes;
  for (const UnitSubgroup& subgroup : plan_.subgroups()) shapes.push_back(subgroup.shape);
  if (!offload.optimizer) {
    optimizer_ = longhaul::MakeOptimizer(options, shapes, device_, *team_);
    momentum_ = MomentumExchangeOf(model_->layout(), plan_, *exchange_, *optimizer_);
    return absl::OkStatus();
  }
  std::vector<InterleavedAdamW::Subgroup> subgroups;
  bool shadow = false;
  for (const UnitSubgroup& part : plan_.subgroups()) {
    subgroups.push_back({part.shape, SpanOf<float>(weights_.Master(part.unit, part.range))});
    shadow = weights_.Shadow(part.unit, part.range).defined();
  }
  std::vector<int64_t> elements;
  for (const SubgroupShape& shape : shapes) elements.push_back(shape.elements);
  // All ranks need the same schedule: host and device may differ in the last bits, and several
  // ranks may update the same elements.
  int64_t stride = 0;
  if (exchange_->rank() == 0) {
    LH_ASSIGN_OR_RETURN(
        stride, ChooseUpdateStride(offload_device_, offload, options, shadow,
                                   RanksOfNode(exchange_->topology(), 0), elements, *team_));
  }
  LH_ASSIGN_OR_RETURN(const auto strides, exchange_->Gather({stride}));
  InterleavedAdamW::Options update = InterleavedOptionsOf(options);
  update.shadow = shadow;
  update.schedule = offload.schedule;
  update.schedule.stride = static_cast<int>(strides[0][0]);
  LH_ASSIGN_OR_RETURN(std::unique_ptr<InterleavedAdamW> made,
                      InterleavedAdamW::Create(update, subgroups, *offload_device_.movement,
                                               offload_device_.update, team_.get()));
  interleaved_ = made.get();
  optimizer_ = std::move(made);
  return absl::OkStatus();
}

// Each rank reads the elements that it owns, and the ranks exchange them. So all ranks are equal,
// even if machines compute a seed's values differently. A rank that cannot read tells the others
// before the collective, so that none waits for it.
absl::Status Engine::Initialize(const InitialParameters& initial) {
  std::vector<int> units(layout().units.size());
  std::iota(units.begin(), units.end(), 0);
  const auto read = [&]() -> absl::Status {
    for (int unit : units) {
      const ElementRange& owned = plan_.owned(unit);
      std::vector<float> values(owned.count);
      LH_RETURN_IF_ERROR(initial.Read(unit, owned.first, absl::MakeSpan(values)));
      LH_RETURN_IF_ERROR(Write(unit, owned.first, values));
    }
    return absl::OkStatus();
  };
  const absl::Status mine = read();
  LH_ASSIGN_OR_RETURN(const auto codes, GatherNumbers({static_cast<int64_t>(mine.code())}));
  LH_RETURN_IF_ERROR(OutcomeOfAll(mine, codes, "could not read its initial parameters"));
  return Publish(units);
}

absl::Status Engine::RunQueued(std::string name, std::function<absl::Status()> work) {
  return queue_->Wait(queue_->Submit(std::move(name), std::move(work)));
}

absl::StatusOr<StepResult> Engine::Step(StageMicroBatch stage, double pool_weight,
                                        double learning_rate) {
  const double weight = std::max(1.0, pool_weight);
  return CatchTorch("training", [&]() -> absl::StatusOr<StepResult> {
    if (momentum_ != nullptr && momentum_->undecided()) {
      LH_RETURN_IF_ERROR(
          RunQueued("looking at the variance", [this] { return momentum_->Decide(); }));
    }
    LH_ASSIGN_OR_RETURN(const MetricSums sums, ComputeGradients(stage, 1.0 / weight));
    LH_ASSIGN_OR_RETURN(StepResult result, SumStep(sums));
    // Every rank has the same sums, so all of them skip, or none.
    result.skipped = !std::isfinite(result.gradient_norm);
    skips_in_a_row_ = result.skipped ? skips_in_a_row_ + 1 : 0;
    if (skips_in_a_row_ == kSkipsInARowMax) {
      return absl::InternalError(
          absl::StrFormat("the gradients of %d steps in a row were not finite (loss %g): training "
                          "diverged; a lower learning rate or a longer warm-up may help",
                          kSkipsInARowMax, result.loss_sum / weight));
    }
    if (result.skipped) {
      reduction_.ForgetErrors();
    } else {
      LH_RETURN_IF_ERROR(Update(learning_rate, result.gradient_norm));
    }
    if (momentum_ != nullptr && momentum_->synchronization_due())
      LH_RETURN_IF_ERROR(SynchronizeSteps());
    result.received = TakeReceived();
    return result;
  });
}

absl::StatusOr<StepResult> Engine::SumStep(const MetricSums& metrics) {
  CodingLoss& gradients = ExchangesMomentum() ? momentum_->loss() : reduction_.loss();
  at::Tensor sums = at::cat({metrics.On(device_).narrow(0, 0, 1), SquaredNormPart().unsqueeze(0),
                             weights_.loss().TakeOn(device_), gradients.TakeOn(device_)});
  if (!exchange_->works_on_device()) {
    LH_RETURN_IF_ERROR(AwaitOwnWork("a step"));
    sums = sums.cpu();
  }
  LH_RETURN_IF_ERROR(
      RunQueued("summing the gradient's norm", [this, sums] { return exchange_->Sum(sums); }));
  sums = sums.cpu();
  const absl::Span<const double> of = SpanOf<const double>(sums);
  const bool finite = of[4] == 0 && of[7] == 0;
  return StepResult{
      .loss_sum = of[0],
      .gradient_norm = finite ? std::sqrt(of[1]) : std::numeric_limits<double>::infinity(),
      .weights_nmse = Nmse(of[2], of[3]),
      .gradients_nmse = Nmse(of[5], of[6])};
}

absl::Status Engine::AwaitOwnWork(absl::string_view what) const {
  return AwaitDevice(device_, what, patience_.now());
}

ReceivedBytes Engine::TakeReceived() {
  const ReceivedBytes received = exchange_->received();
  return received - std::exchange(reported_, received);
}

absl::StatusOr<MetricSums> Engine::ComputeGradients(StageMicroBatch stage, double scale) {
  if (interleaved_ != nullptr) {
    // The previous step may have ended before its update.
    LH_RETURN_IF_ERROR(interleaved_->ForgetGradients());
    interleaved_->PrefetchState();
  }
  gradients_.BeginStep();
  reduction_.ForgetOwed();
  const int reset = plan_.map().error_reset_steps;
  if (reset > 0 && updates() % reset == 0) reduction_.ForgetErrors();
  MetricSums sums(*model_);
  // Of the whole step, so that backward of one micro-batch hides the first gathers of the next.
  WeightStream weights(*model_, weights_, *queue_, TrainingUses(*model_, accumulation_),
                       gathers_ahead_);
  for (int micro = 0; micro < accumulation_; ++micro) {
    LH_ASSIGN_OR_RETURN(StagedBatch batch, stage(micro, accumulation_));
    Prepare(batch);
    LH_ASSIGN_OR_RETURN(const MetricSums of_batch,
                        ComputeMicroBatch(batch, scale, micro == accumulation_ - 1, weights));
    sums.Add(of_batch);
    // The next backward may first contribute to any unit (tied weights).
    LH_RETURN_IF_ERROR(FreeReduced(0));
  }
  return sums;
}

absl::StatusOr<MetricSums> Engine::ComputeMicroBatch(const StagedBatch& batch, double scale,
                                                     bool last, WeightStream& weights) {
  const auto ready = [&](int unit) { return SubmitReduction(unit, last); };
  const PassOptions options{
      .scale = scale, .recompute = recompute_, .trace = trace_.get(), .fused = fused_.get()};
  if (graphed_ != nullptr && batch.examples > 0)
    return graphed_->ForwardBackward(batch, options, gradients_, ready);
  return ForwardBackward(*model_, batch, options, weights, gradients_, ready);
}

absl::Status Engine::SubmitReduction(int unit, bool last) {
  if (!gradients_.split() && !last) return absl::OkStatus();
  gradients_.Finish(unit);
  // The momentum is made from the rank's own gradient, after clipping.
  if (ExchangesMomentum()) return absl::OkStatus();
  reducing_.push_back(
      {unit, last,
       queue_->Submit(absl::StrCat("reducing the gradient of ", layout().units[unit].name),
                      [this, unit, last] { return ReduceUnit(unit, last); })});
  // Reduced gradients may be copied to the host already.
  return gradients_.split() || interleaved_ != nullptr ? FreeReduced(kUnitsUnderWay)
                                                       : absl::OkStatus();
}

absl::Status Engine::ReduceUnit(int unit, bool last) {
  const Level level = plan_.map().gradients.level;
  if (gradients_.split()) {
    LH_RETURN_IF_ERROR(reduction_.Reduce(unit, gradients_.unit(unit), 0, Level::kRank, level));
    gradients_.Keep(unit);
  }
  if (!last) return absl::OkStatus();
  const at::Tensor& sum = gradients_.sum(unit);
  const int64_t first = gradients_.first(unit);
  LH_RETURN_IF_ERROR(reduction_.Reduce(unit, sum, first, level, Level::kPool));
  return reduction_.Spread(unit, sum, first, plan_.map().optimizer);
}

absl::Status Engine::FreeReduced(size_t pending_max) {
  while (reducing_.size() > pending_max) {
    const Pending oldest = reducing_.front();
    LH_RETURN_IF_ERROR(queue_->Wait(oldest.ticket));
    if (gradients_.split()) gradients_.Release(oldest.unit);
    if (oldest.last) FlushGradients(oldest.unit);
    reducing_.erase(reducing_.begin());
  }
  return absl::OkStatus();
}

// The squared norm of the part of the pool's gradient that this rank owns. While ranks exchange
// momentum there is no such gradient: then it is the squared norm of this rank's own gradient,
// times the number of ranks. Gradients are scaled so that their sum is the mean. So the sum of
// these values over the ranks is the mean square.
at::Tensor Engine::SquaredNormPart() {
  const int units = static_cast<int>(layout().units.size());
  double sum = 0;
  if (ExchangesMomentum()) {
    for (int unit = 0; unit < units; ++unit)
      sum += SquaredNorm(SpanOf<const float>(gradients_.sum(unit)), team_.get());
    return at::scalar_tensor(sum * exchange_->ranks(), at::kDouble);
  }
  std::vector<at::Tensor> device_norms;
  for (int unit = 0; unit < units; ++unit) {
    const at::Tensor owned = gradients_.Range(unit, plan_.owned(unit));
    if (device_.is_cpu()) {
      sum += SquaredNorm(SpanOf<const float>(owned), team_.get());
    } else if (owned.numel() > 0) {
      device_norms.push_back(at::linalg_vector_norm(owned, 2, {}, /*keepdim=*/false, at::kDouble));
    }
  }
  if (device_.is_cpu()) return at::scalar_tensor(sum, at::kDouble);
  if (device_norms.empty()) return at::zeros({}, c10::TensorOptions(at::kDouble).device(device_));
  return at::stack(device_norms).square().sum();
}

// The weights of one unit are exchanged while the next unit is updated. Every rank refreshes the
// units in their order, whichever is settled first.
absl::Status Engine::Update(double learning_rate, double gradient_norm) {
  const Trace::Span span(trace_.get(), Trace::Track::kCompute, "update");
  double scale = ClipScale(gradient_norm, clip_norm_);
  std::vector<StreamQueue::Ticket> averaged;
  if (ExchangesMomentum() && momentum_->steps_locally()) {
    // The rank's own gradient is its part of a sum over ranks. Scaled, it estimates that sum.
    scale *= exchange_->ranks();
  } else if (ExchangesMomentum()) {
    averaged = AverageMomentum(scale);
  }
  optimizer_->Begin({.learning_rate = learning_rate, .gradient_scale = scale});
  const int units = static_cast<int>(layout().units.size());
  StreamQueue::Ticket last = 0;
  int submitted = 0, settled = 0, refreshed = 0;
  const auto refresh_before = [&](int unit) {
    for (; refreshed < unit; ++refreshed) last = SubmitRefresh(refreshed);
  };
  for (int unit = 0; unit < units; ++unit) {
    if (!averaged.empty()) LH_RETURN_IF_ERROR(queue_->Wait(averaged[unit]));
    for (; submitted < plan_.first_subgroup(unit + 1); ++submitted)
      optimizer_->Submit(UpdateOf(submitted));
    while (settled < submitted && optimizer_->Settled(settled)) ++settled;
    refresh_before(settled == submitted ? unit + 1 : plan_.subgroups()[settled].unit);
  }
  LH_RETURN_IF_ERROR(optimizer_->Finish());
  refresh_before(units);
  return queue_->Wait(last);
}

// The momentum of one unit is exchanged while the previous unit is updated.
std::vector<StreamQueue::Ticket> Engine::AverageMomentum(double scale) {
  std::vector<StreamQueue::Ticket> tickets;
  for (int unit = 0; unit < static_cast<int>(layout().units.size()); ++unit) {
    tickets.push_back(queue_->Submit(
        absl::StrCat("averaging the momentum of ", layout().units[unit].name),
        [this, unit, scale] { return momentum_->Average(unit, gradients_.sum(unit), scale); }));
  }
  return tickets;
}

StreamQueue::Ticket Engine::SubmitRefresh(int unit) {
  return queue_->Submit(
      absl::StrCat("refreshing the weights of ", layout().units[unit].name),
      [this, unit] { return weights_.Refresh(unit, ComputeWeights::From::kShadow); });
}

SubgroupUpdate Engine::UpdateOf(int subgroup) const {
  const UnitSubgroup& part = plan_.subgroups()[subgroup];
  const at::Tensor shadow = weights_.Shadow(part.unit, part.range);
  return {.subgroup = subgroup,
          .parameters = SpanOf<float>(weights_.Master(part.unit, part.range)),
          .gradients = SpanOf<const float>(gradients_.Range(part.unit, part.range)),
          .shadow = shadow.defined() ? SpanOf<uint16_t>(shadow) : absl::Span<uint16_t>()};
}

void Engine::FlushGradients(int unit) {
  if (interleaved_ == nullptr) return;
  for (int i = plan_.first_subgroup(unit); i < plan_.first_subgroup(unit + 1); ++i)
    interleaved_->FlushGradients(UpdateOf(i));
}

absl::Status Engine::BeginWrite(int unit, const ElementRange& range) {
  if (interleaved_ == nullptr) return absl::OkStatus();
  for (int i = plan_.first_subgroup(unit); i < plan_.first_subgroup(unit + 1); ++i) {
    const ElementRange& held = plan_.subgroups()[i].range;
    if (held.first < range.end() && held.end() > range.first)
      LH_RETURN_IF_ERROR(interleaved_->BeginWrite(i));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::vector<int64_t>>> Engine::GatherNumbers(
    absl::Span<const int64_t> values) {
  struct Gathered {
    std::vector<int64_t> own;
    absl::StatusOr<std::vector<std::vector<int64_t>>> all;
  };
  const auto numbers = std::make_shared<Gathered>();
  numbers->own.assign(values.begin(), values.end());
  LH_RETURN_IF_ERROR(RunQueued("gathering numbers", [this, numbers] {
    numbers->all = exchange_->Gather(numbers->own);
    return numbers->all.status();
  }));
  return std::move(numbers->all);
}

void Engine::Prepare(StagedBatch& batch) const {
  if (fused_ == nullptr && batch.examples > 0) model_->Prepare(batch, compute_);
}

}  // namespace longhaul
