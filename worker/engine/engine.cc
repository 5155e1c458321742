#include "worker/engine/engine.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "ATen/ops/from_blob.h"
#include "ATen/ops/linalg_vector_norm.h"
#include "ATen/ops/stack.h"
#include "ATen/ops/zeros.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "worker/collective/parts.h"
#include "worker/engine/optimizer_factory.h"
#include "worker/engine/segmented_pass.h"
#include "worker/engine/tensor_span.h"
#include "worker/engine/torch_status.h"
#include "worker/engine/unit_gather.h"
#include "worker/engine/weight_stream.h"
#include "worker/model/initialization.h"
#include "worker/optim/clipping.h"
#include "worker/optim/squared_norm.h"

namespace longhaul {
namespace {

// Whose gradients wait to be reduced, each in a buffer, while backward makes the next: one that is
// being reduced, and one behind it.
constexpr size_t kUnitsUnderWay = 2;

at::Tensor OnHost(const float* data, int64_t size) {
  return at::from_blob(const_cast<float*>(data), {size}, c10::TensorOptions(at::kFloat));
}

// The map without what means nothing in this pool.
PartitionMap Fit(const Engine::Options& options, const Topology& topology) {
  PartitionMap map = Normalized(options.partition, topology);
  // Weights that rest in host memory come to the device unit by unit, as gathered ones do: also in a
  // pool of one rank, where nothing has to be split.
  if (options.offload.parameters && map.weights.level == Level::kRank) {
    map.weights = {.level = options.partition.weights.level};
    map.optimizer = options.partition.optimizer;
  }
  return map;
}

// What an optimizer cannot do, whatever the job's spec said.
absl::Status CheckOptimizer(const Engine::Options& options) {
  if (!std::holds_alternative<OneBitAdamOptions>(options.optimizer)) return absl::OkStatus();
  if (!options.device.is_cpu())
    return absl::UnimplementedError("1-bit Adam is built for device CPU only");
  if (!options.partition.replicates()) {
    return absl::UnimplementedError(
        "1-bit Adam needs everything on every rank, unquantized (partition preset ddp)");
  }
  return absl::OkStatus();
}

std::unique_ptr<MomentumExchange> MomentumExchangeOf(const ModelLayout& layout,
                                                     const ShardPlan& plan, PoolExchange& exchange,
                                                     Optimizer& optimizer) {
  auto* const onebit = dynamic_cast<OneBitAdam*>(&optimizer);
  if (onebit == nullptr) return nullptr;
  return std::make_unique<MomentumExchange>(layout, plan, exchange, *onebit);
}

std::unique_ptr<FusedPass> MakeFused(const Model& model, const Engine::Options& options) {
  return options.blocks == Blocks::kAutograd ? nullptr : model.MakeFusedPass(options.compute);
}

WeightPlacement PlacementOf(const OffloadOptions& options, const OffloadDevice& device) {
  return {.movement = device.movement.get(),
          .masters = options.optimizer,
          .weights = options.parameters};
}

int RanksOfNode(const Topology& topology, int rank) {
  return static_cast<int>(topology.Group(Level::kNode, rank).size());
}

absl::Status CheckOffload(const Engine::Options& options, const PoolExchange& exchange) {
  const auto* const adamw = std::get_if<AdamWOptions>(&options.optimizer);
  if (adamw == nullptr) return absl::UnimplementedError("offload: only AdamW is built for it");
  if (options.offload.parameters && options.partition.weights.level == Level::kRank) {
    return absl::InvalidArgumentError(
        "offload.parameters: the partition leaves the weights on every rank whole");
  }
  const ModelLayout& layout = options.model->layout();
  const ShardPlan plan(layout, options.partition, exchange.topology(), exchange.rank(),
                       CutRuleOf(options.optimizer), options.offload.subgroup_elements);
  return CheckOffloadMemory(layout, plan, options.offload, *adamw, options.device,
                            options.compute == at::kFloat,
                            RanksOfNode(exchange.topology(), exchange.rank()));
}

int BitsOf(at::ScalarType compute) { return compute == at::kFloat ? 32 : 16; }

double Nmse(double error, double signal) { return signal > 0 ? error / signal : 0; }

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(Options options) {
  return CatchTorch("creating the engine", [&]() -> absl::StatusOr<std::unique_ptr<Engine>> {
    LH_CHECK(options.accumulation > 0 && options.gathers_ahead >= 0 && options.threads > 0,
             "counts must be positive");
    LH_RETURN_IF_ERROR(CheckOptimizer(options));
    LH_ASSIGN_OR_RETURN(std::unique_ptr<PoolExchange> exchange,
                        PoolExchange::Create(options.link, options.partition, options.device));
    options.partition = Fit(options, exchange->topology());
    if (options.partition.quantizes() && !options.device.is_cpu() && options.kernels == nullptr) {
      LH_ASSIGN_OR_RETURN(options.kernels, LoadCudaSegmentKernels());
    }
    if (CutRuleOf(options.optimizer) == CutRule::kMatrices &&
        CountMatrices(options.model->layout()).matrices == 0) {
      return absl::InvalidArgumentError(
          "inner.muon: the model has no hidden matrix, so it would update nothing; use "
          "inner.adamw");
    }
    std::unique_ptr<Trace> trace;
    if (!options.trace_path.empty()) {
      LH_ASSIGN_OR_RETURN(trace, Trace::Create(options.trace_path, exchange->rank()));
    }
    OffloadDevice offload_device;
    if (options.offload.optimizer) {
      LH_RETURN_IF_ERROR(CheckOffload(options, *exchange));
      LH_ASSIGN_OR_RETURN(offload_device, OpenOffloadDevice(options.device, options.offload));
    }
    std::unique_ptr<const Model> model = std::move(options.model);
    std::unique_ptr<Engine> engine(new Engine(options, std::move(model), std::move(exchange),
                                              std::move(trace), std::move(offload_device)));
    if (engine->fused_ == nullptr && options.blocks == Blocks::kFused) {
      return absl::UnimplementedError(
          "train.blocks: FUSED is built for transformers on device CPU only; use AUTO");
    }
    LH_RETURN_IF_ERROR(engine->MakeOptimizer(options.optimizer, options.offload));
    if (options.initial != nullptr) {
      LH_RETURN_IF_ERROR(engine->Initialize(*options.initial));
    } else {
      LH_RETURN_IF_ERROR(engine->Initialize(SeedParameters(*engine->model_, options.seed)));
    }
    return engine;
  });
}

Engine::Engine(const Options& options, std::unique_ptr<const Model> model,
               std::unique_ptr<PoolExchange> exchange, std::unique_ptr<Trace> trace,
               OffloadDevice offload_device)
    : model_(std::move(model)),
      device_(options.device),
      clip_norm_(options.clip_norm),
      accumulation_(options.accumulation),
      gathers_ahead_(options.gathers_ahead),
      recompute_(options.recompute),
      trace_(std::move(trace)),
      exchange_(std::move(exchange)),
      offload_device_(std::move(offload_device)),
      plan_(model_->layout(), options.partition, exchange_->topology(), exchange_->rank(),
            CutRuleOf(options.optimizer),
            options.offload.optimizer ? options.offload.subgroup_elements : 0),
      weights_(model_->layout(), plan_, *exchange_, device_, options.compute,
               PlacementOf(options.offload, offload_device_), options.kernels),
      gradients_(model_->layout(), plan_, device_),
      reduction_(model_->layout(), plan_, *exchange_, device_, BitsOf(options.compute),
                 options.kernels),
      fused_(MakeFused(*model_, options)),
      team_(options.threads),
      own_queue_(options.queue != nullptr ? nullptr
                 : exchange_->ranks() > 1 ? MakeCollectiveQueue(device_, trace_.get())
                                          : MakeImmediateQueue()),
      queue_(options.queue != nullptr ? options.queue : own_queue_.get()) {}

Engine::~Engine() = default;

absl::Status Engine::MakeOptimizer(const OptimizerOptions& options, const OffloadOptions& offload) {
  std::vector<SubgroupShape> shapes;
  for (const UnitSubgroup& subgroup : plan_.subgroups()) shapes.push_back(subgroup.shape);
  if (!offload.optimizer) {
    optimizer_ = longhaul::MakeOptimizer(options, shapes, device_, team_);
    momentum_ = MomentumExchangeOf(model_->layout(), plan_, *exchange_, *optimizer_);
    return absl::OkStatus();
  }
  const auto* const adamw = std::get_if<AdamWOptions>(&options);  // CheckOffload.
  std::vector<InterleavedAdamW::Subgroup> subgroups;
  bool shadow = false;
  for (const UnitSubgroup& part : plan_.subgroups()) {
    subgroups.push_back({part.shape, SpanOf<float>(weights_.Master(part.unit, part.range))});
    shadow = weights_.Shadow(part.unit, part.range).defined();
  }
  std::vector<int64_t> elements;
  for (const SubgroupShape& shape : shapes) elements.push_back(shape.elements);
  // One schedule for the pool: the host's arithmetic and the device's may differ in the last bits, and
  // some ranks update the same elements.
  int64_t stride = 0;
  if (exchange_->rank() == 0) {
    LH_ASSIGN_OR_RETURN(stride,
                        ChooseUpdateStride(offload_device_, offload, *adamw, shadow,
                                           RanksOfNode(exchange_->topology(), 0), elements, team_));
  }
  LH_ASSIGN_OR_RETURN(const auto strides, exchange_->Gather({stride}));
  InterleavedAdamW::Options update{.adamw = *adamw, .schedule = offload.schedule, .shadow = shadow};
  update.schedule.stride = static_cast<int>(strides[0][0]);
  LH_ASSIGN_OR_RETURN(std::unique_ptr<InterleavedAdamW> made,
                      InterleavedAdamW::Create(update, subgroups, *offload_device_.movement,
                                               offload_device_.adamw, &team_));
  interleaved_ = made.get();
  optimizer_ = std::move(made);
  return absl::OkStatus();
}

// Each rank reads what it owns; the exchange makes the ranks equal even where a seed's arithmetic is
// not. A rank that cannot read says so before the collective, so that no other waits for it.
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
  LH_RETURN_IF_ERROR(mine);
  for (size_t rank = 0; rank < codes.size(); ++rank) {
    if (codes[rank][0] == 0) continue;
    return absl::UnavailableError(
        absl::StrCat("rank ", rank, " could not read its initial parameters"));
  }
  return Publish(units);
}

absl::Status Engine::RunQueued(std::string name, std::function<absl::Status()> work) {
  return queue_->Wait(queue_->Submit(std::move(name), std::move(work)));
}

absl::StatusOr<StepResult> Engine::Step(const TokenBatch& share, int64_t pool_tokens,
                                        double learning_rate) {
  return CatchTorch("training", [&]() -> absl::StatusOr<StepResult> {
    if (momentum_ != nullptr && !momentum_->begun()) {
      LH_RETURN_IF_ERROR(
          RunQueued("looking at the variance", [this] { return momentum_->Decide(); }));
    }
    LH_ASSIGN_OR_RETURN(const double loss_sum, ComputeGradients(share, pool_tokens));
    CodingLoss::Sums gradients = reduction_.Take();
    if (ExchangesMomentum()) gradients = momentum_->TakeLoss();
    const CodingLoss::Sums weights = weights_.TakeLoss();
    double sums[] = {loss_sum,
                     gradients.finite && weights.finite ? SquaredNormPart()
                                                        : std::numeric_limits<double>::infinity(),
                     weights.error_energy,
                     weights.signal_energy,
                     gradients.error_energy,
                     gradients.signal_energy};
    LH_RETURN_IF_ERROR(RunQueued("summing the gradient's norm",
                                 [&] { return exchange_->Sum(absl::MakeSpan(sums)); }));
    StepResult result{.loss_sum = sums[0],
                      .gradient_norm = std::sqrt(sums[1]),
                      .weights_nmse = Nmse(sums[2], sums[3]),
                      .gradients_nmse = Nmse(sums[4], sums[5])};
    // Every rank has the same sums, so all of them skip, or none.
    result.skipped = !std::isfinite(result.gradient_norm);
    skips_in_a_row_ = result.skipped ? skips_in_a_row_ + 1 : 0;
    if (skips_in_a_row_ == kSkipsInARowMax) {
      return absl::InternalError(
          absl::StrFormat("the gradients of %d steps in a row were not finite (loss %g): training "
                          "diverged; a lower learning rate or a longer warm-up may help",
                          kSkipsInARowMax, result.loss_sum / static_cast<double>(pool_tokens)));
    }
    if (!result.skipped) LH_RETURN_IF_ERROR(Update(learning_rate, result.gradient_norm));
    const ReceivedBytes received = exchange_->received();
    result.received = received - std::exchange(reported_, received);
    return result;
  });
}

absl::StatusOr<double> Engine::ComputeGradients(const TokenBatch& share, int64_t pool_tokens) {
  LH_CHECK(static_cast<int64_t>(share.tokens.size()) == share.sequences * (share.context + 1),
           "a batch has holes");
  if (interleaved_ != nullptr) {
    LH_RETURN_IF_ERROR(interleaved_->ForgetGradients());  // Of a step that ended before its update.
    interleaved_->PrefetchState();
  }
  gradients_.BeginStep();
  double loss_sum = 0;
  for (int micro = 0; micro < accumulation_; ++micro) {
    const Part part = EvenParts(share.sequences, accumulation_)[micro];
    const int64_t width = share.context + 1;
    const TokenBatch batch{part.size, share.context,
                           share.tokens.subspan(part.offset * width, part.size * width)};
    LH_ASSIGN_OR_RETURN(const double loss,
                        ComputeMicroBatch(batch, 1.0 / static_cast<double>(pool_tokens),
                                          micro == accumulation_ - 1));
    loss_sum += loss;
    // The next backward's first contributions may be to any unit (tied weights).
    LH_RETURN_IF_ERROR(FreeReduced(0));
  }
  return loss_sum;
}

absl::StatusOr<double> Engine::ComputeMicroBatch(const TokenBatch& share, double scale, bool last) {
  WeightStream stream(*model_, weights_, *queue_, TrainingUses(*model_), gathers_ahead_);
  const auto ready = [&](int unit) { return SubmitReduction(unit, last); };
  return ForwardBackward(
      *model_, ToDevice(share),
      {.scale = scale, .recompute = recompute_, .trace = trace_.get(), .fused = fused_.get()},
      stream, gradients_, ready);
}

absl::Status Engine::SubmitReduction(int unit, bool last) {
  if (!gradients_.split() && !last) return absl::OkStatus();
  gradients_.Finish(unit);
  if (ExchangesMomentum()) return absl::OkStatus();  // The update begins with its clipped gradient.
  reducing_.push_back(
      {unit, last,
       queue_->Submit(absl::StrCat("reducing the gradient of ", layout().units[unit].name),
                      [this, unit, last] { return ReduceUnit(unit, last); })});
  // Those that are reduced may also set out for the host.
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

// The squared norm of what this rank owns of the pool's gradient. While ranks exchange momentum there
// is no such gradient: then that of this rank's own, times the number of ranks. Gradients are scaled
// so that their sum is the mean, so the sum of these over the ranks is the mean square.
double Engine::SquaredNormPart() {
  double sum = 0;
  if (ExchangesMomentum()) {
    for (int unit = 0; unit < static_cast<int>(layout().units.size()); ++unit)
      sum += SquaredNorm(SpanOf<const float>(gradients_.sum(unit)), &team_);
    return sum * exchange_->ranks();
  }
  std::vector<at::Tensor> device_norms;  // Read back at once: each reading waits for the device.
  for (int unit = 0; unit < static_cast<int>(layout().units.size()); ++unit) {
    const at::Tensor owned = gradients_.Range(unit, plan_.owned(unit));
    if (device_.is_cpu()) {
      sum += SquaredNorm(SpanOf<const float>(owned), &team_);
    } else if (owned.numel() > 0) {
      device_norms.push_back(at::linalg_vector_norm(owned, 2, {}, /*keepdim=*/false, at::kDouble));
    }
  }
  if (!device_norms.empty()) sum = at::stack(device_norms).square().sum().item<double>();
  return sum;
}

// Weights of one unit cross while the next one is updated. Every rank refreshes the units in their
// order, whichever is settled first.
absl::Status Engine::Update(double learning_rate, double gradient_norm) {
  const Trace::Span span(trace_.get(), Trace::Track::kCompute, "update");
  const double scale = ClipScale(gradient_norm, clip_norm_);
  const std::vector<CollectiveQueue::Ticket> averaged = AverageMomentum(scale);
  optimizer_->Begin({.learning_rate = learning_rate, .gradient_scale = scale});
  const int units = static_cast<int>(layout().units.size());
  CollectiveQueue::Ticket last = 0;
  int submitted = 0, settled = 0, refreshed = 0;
  const auto refresh_before = [&](int unit) {
    for (; refreshed < unit; ++refreshed) {
      last =
          queue_->Submit(absl::StrCat("refreshing the weights of ", layout().units[refreshed].name),
                         [this, unit = refreshed] {
                           return weights_.Refresh(unit, ComputeWeights::From::kShadow);
                         });
    }
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

// Momentum of one unit crosses while the one before is updated.
std::vector<CollectiveQueue::Ticket> Engine::AverageMomentum(double scale) {
  std::vector<CollectiveQueue::Ticket> tickets;
  if (!ExchangesMomentum()) return tickets;
  for (int unit = 0; unit < static_cast<int>(layout().units.size()); ++unit) {
    tickets.push_back(queue_->Submit(
        absl::StrCat("averaging the momentum of ", layout().units[unit].name),
        [this, unit, scale] { return momentum_->Average(unit, gradients_.sum(unit), scale); }));
  }
  return tickets;
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

absl::StatusOr<double> Engine::LossSum(const TokenBatch& share) {
  return CatchTorch("evaluating", [&]() -> absl::StatusOr<double> {
    WeightStream stream(*model_, weights_, *queue_, EvaluationUses(*model_), gathers_ahead_);
    LH_ASSIGN_OR_RETURN(double sum, ForwardOnly(*model_, ToDevice(share), stream, fused_.get()));
    // A weight that is not finite has no quantized form: whatever was computed is not its loss.
    if (!weights_.TakeLoss().finite) sum = std::numeric_limits<double>::quiet_NaN();
    LH_RETURN_IF_ERROR(
        RunQueued("summing the loss", [&] { return exchange_->Sum(absl::MakeSpan(&sum, 1)); }));
    return sum;
  });
}

absl::StatusOr<std::vector<std::vector<int64_t>>> Engine::GatherNumbers(
    absl::Span<const int64_t> values) {
  absl::StatusOr<std::vector<std::vector<int64_t>>> gathered;
  LH_RETURN_IF_ERROR(RunQueued("gathering numbers", [&] {
    gathered = exchange_->Gather(values);
    return gathered.status();
  }));
  return gathered;
}

std::optional<Batch> Engine::ToDevice(const TokenBatch& batch) const {
  if (batch.sequences == 0) return std::nullopt;
  const at::Tensor host =
      at::from_blob(const_cast<int64_t*>(batch.tokens.data()), {batch.sequences, batch.context + 1},
                    c10::TensorOptions(at::kLong));
  const at::Tensor tokens = host.to(device_);
  return Batch{tokens.narrow(1, 0, batch.context), tokens.narrow(1, 1, batch.context)};
}

absl::Status Engine::Read(int unit, int64_t offset, absl::Span<float> out) const {
  return CatchTorch("reading parameters", [&]() -> absl::Status {
    const auto size = static_cast<int64_t>(out.size());
    OnHost(out.data(), size).copy_(weights_.Master(unit, {offset, size}));
    return absl::OkStatus();
  });
}

absl::Status Engine::Write(int unit, int64_t offset, absl::Span<const float> in) {
  return CatchTorch("writing parameters", [&]() -> absl::Status {
    const auto size = static_cast<int64_t>(in.size());
    LH_RETURN_IF_ERROR(BeginWrite(unit, {offset, size}));
    weights_.Master(unit, {offset, size}).copy_(OnHost(in.data(), size));
    return absl::OkStatus();
  });
}

const float* Engine::DeviceParameters(int unit, int64_t offset) const {
  const bool there = device_.is_cuda() && interleaved_ == nullptr;
  return there ? weights_.Master(unit, {offset, 0}).const_data_ptr<float>() : nullptr;
}

absl::Status Engine::Publish(absl::Span<const int> units) {
  CollectiveQueue::Ticket last = 0;
  for (int unit : units) {
    LH_RETURN_IF_ERROR(BeginWrite(unit, {0, layout().units[unit].elements}));
    last = queue_->Submit(absl::StrCat("publishing ", layout().units[unit].name),
                          [this, unit]() -> absl::Status {
                            LH_RETURN_IF_ERROR(weights_.SpreadMasters(unit));
                            return weights_.Refresh(unit);
                          });
  }
  return queue_->Wait(last);
}

// visit(subgroup, its first element and the number of them in the range, the first one's place in
// the unit), for subgroups that keep the state.
template <typename Visit>
void Engine::ForState(OptimizerState state, int unit, const ElementRange& range,
                      Visit&& visit) const {
  for (int i = plan_.first_subgroup(unit); i < plan_.first_subgroup(unit + 1); ++i) {
    const ElementRange& held = plan_.subgroups()[i].range;
    const int64_t first = std::max(held.first, range.first);
    const int64_t end = std::min(held.end(), range.end());
    if (first >= end || !optimizer_->Keeps(state, i)) continue;
    visit(i, ElementRange{first - held.first, end - first}, first);
  }
}

absl::Status Engine::ReadState(OptimizerState state, int unit, int64_t offset,
                               absl::Span<float> out) const {
  return CatchTorch("reading the optimizer's state", [&]() -> absl::Status {
    std::fill(out.begin(), out.end(), 0.0f);
    ForState(state, unit, {offset, static_cast<int64_t>(out.size())},
             [&](int subgroup, const ElementRange& part, int64_t first) {
               optimizer_->ReadState(state, subgroup, part.first,
                                     out.subspan(first - offset, part.count));
             });
    return absl::OkStatus();
  });
}

absl::Status Engine::WriteState(OptimizerState state, int unit, int64_t offset,
                                absl::Span<const float> in) {
  return CatchTorch("writing the optimizer's state", [&]() -> absl::Status {
    ForState(state, unit, {offset, static_cast<int64_t>(in.size())},
             [&](int subgroup, const ElementRange& part, int64_t first) {
               optimizer_->WriteState(state, subgroup, part.first,
                                      in.subspan(first - offset, part.count));
             });
    return absl::OkStatus();
  });
}

absl::Status Engine::PublishState(OptimizerState state, int unit) {
  const Level level = plan_.map().optimizer;
  const ElementRange held = plan_.Held(unit, level);
  std::vector<float> values(held.count);
  LH_RETURN_IF_ERROR(ReadState(state, unit, held.first, absl::MakeSpan(values)));
  const at::Tensor flat = OnHost(values.data(), held.count).to(device_);
  LH_RETURN_IF_ERROR(
      GatherFloats(*exchange_, plan_, unit, flat, held.first, Level::kPool, level, Use::kRefresh));
  OnHost(values.data(), held.count).copy_(flat);
  return WriteState(state, unit, held.first, values);
}

OptimizerPhase Engine::phase() const {
  OptimizerPhase phase{.updates = optimizer_->updates()};
  if (momentum_ != nullptr) {
    phase.frozen_at = momentum_->frozen_at();
    phase.last_look = momentum_->last_look();
  }
  return phase;
}

absl::Span<float> Engine::FeedbackOf(Feedback end, int unit) {
  return momentum_ == nullptr ? absl::Span<float>() : momentum_->feedback(end, unit);
}

absl::Status Engine::PublishState(const OptimizerPhase& phase) {
  for (int unit = 0; unit < static_cast<int>(layout().units.size()); ++unit) {
    for (const OptimizerState state : kOptimizerStates) {
      LH_RETURN_IF_ERROR(
          RunQueued(absl::StrCat("publishing the optimizer's state of ", layout().units[unit].name),
                    [&] { return PublishState(state, unit); }));
    }
  }
  optimizer_->SetUpdates(phase.updates);
  if (momentum_ != nullptr) momentum_->Resume(phase.frozen_at, phase.last_look);
  return absl::OkStatus();
}

StateBytes Engine::state_bytes() const {
  const ComputeWeights::Bytes weights = weights_.kept_bytes();
  return {.weights = weights.weights,
          .secondary = weights.secondary,
          .gradients = gradients_.kept_bytes(),
          .optimizer = weights.masters + optimizer_->state_bytes(),
          .error_feedback =
              reduction_.kept_bytes() + (momentum_ != nullptr ? momentum_->kept_bytes() : 0),
          .host = weights.host + (interleaved_ == nullptr ? 0 : interleaved_->bytes().host)};
}

}  // namespace longhaul
