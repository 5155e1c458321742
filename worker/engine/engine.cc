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
#include "worker/engine/segmented_pass.h"
#include "worker/engine/tensor_span.h"
#include "worker/engine/torch_adamw.h"
#include "worker/engine/torch_status.h"
#include "worker/engine/unit_gather.h"
#include "worker/engine/weight_stream.h"
#include "worker/model/initialization.h"
#include "worker/optim/adamw.h"
#include "worker/optim/clipping.h"
#include "worker/optim/squared_norm.h"

namespace longhaul {
namespace {

// Whose gradients wait to be reduced, each in a buffer, while backward makes the next: one that is
// being reduced, and one behind it.
constexpr size_t kUnitsUnderWay = 2;

std::unique_ptr<Optimizer> MakeOptimizer(const AdamWOptions& options, const ShardPlan& plan,
                                         at::Device device) {
  std::vector<OptimizerRun> runs;
  for (const UpdateRun& run : plan.runs()) runs.push_back({run.range.count, run.decay});
  if (device.is_cpu()) return std::make_unique<AdamW>(options, runs);
  return std::make_unique<TorchAdamW>(options, runs, device);
}

at::Tensor OnHost(const float* data, int64_t size) {
  return at::from_blob(const_cast<float*>(data), {size}, c10::TensorOptions(at::kFloat));
}

// The map without what means nothing in this pool.
absl::StatusOr<PartitionMap> Fit(const Engine::Options& options, const Topology& topology) {
  PartitionMap map = Normalized(options.partition, topology);
  if (map.quantizes() && !options.device.is_cpu()) {
    return absl::UnimplementedError(
        "partition: 4 and 8 bits are built for device CPU only; use 16 or 32");
  }
  return map;
}

int BitsOf(at::ScalarType compute) { return compute == at::kFloat ? 32 : 16; }

double Nmse(double error, double signal) { return signal > 0 ? error / signal : 0; }

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(Options options) {
  return CatchTorch("creating the engine", [&]() -> absl::StatusOr<std::unique_ptr<Engine>> {
    LH_CHECK(options.accumulation > 0 && options.gathers_ahead >= 0, "counts must be positive");
    LH_ASSIGN_OR_RETURN(std::unique_ptr<PoolExchange> exchange,
                        PoolExchange::Create(options.link, options.partition, options.device));
    LH_ASSIGN_OR_RETURN(options.partition, Fit(options, exchange->topology()));
    std::unique_ptr<Trace> trace;
    if (!options.trace_path.empty()) {
      LH_ASSIGN_OR_RETURN(trace, Trace::Create(options.trace_path, exchange->rank()));
    }
    std::unique_ptr<Engine> engine(
        new Engine(std::move(options), std::move(exchange), std::move(trace)));
    LH_RETURN_IF_ERROR(engine->Initialize());
    return engine;
  });
}

Engine::Engine(Options options, std::unique_ptr<PoolExchange> exchange,
               std::unique_ptr<Trace> trace)
    : model_(std::move(options.model)),
      device_(options.device),
      clip_norm_(options.clip_norm),
      seed_(options.seed),
      accumulation_(options.accumulation),
      gathers_ahead_(options.gathers_ahead),
      recompute_(options.recompute),
      trace_(std::move(trace)),
      exchange_(std::move(exchange)),
      plan_(model_->layout(), options.partition, exchange_->topology(), exchange_->rank()),
      weights_(model_->layout(), plan_, *exchange_, device_, options.compute),
      gradients_(model_->layout(), plan_, device_),
      reduction_(model_->layout(), plan_, *exchange_, device_, BitsOf(options.compute)),
      optimizer_(MakeOptimizer(options.adamw, plan_, device_)),
      own_queue_(options.queue != nullptr ? nullptr
                 : exchange_->ranks() > 1 ? MakeCollectiveQueue(device_, trace_.get())
                                          : MakeImmediateQueue()),
      queue_(options.queue != nullptr ? options.queue : own_queue_.get()) {}

Engine::~Engine() = default;

// Each rank makes what it owns; the exchange makes the ranks equal even where their mathematical
// libraries are not.
absl::Status Engine::Initialize() {
  std::vector<int> units(layout().units.size());
  std::iota(units.begin(), units.end(), 0);
  for (int unit : units) {
    const ElementRange& owned = plan_.owned(unit);
    std::vector<float> values(owned.count);
    InitializeParameters(*model_, seed_, unit, owned.first, absl::MakeSpan(values));
    LH_RETURN_IF_ERROR(Write(unit, owned.first, values));
  }
  return Publish(units);
}

absl::Status Engine::RunQueued(std::string name, std::function<absl::Status()> work) {
  return queue_->Wait(queue_->Submit(std::move(name), std::move(work)));
}

absl::StatusOr<StepResult> Engine::Step(const TokenBatch& share, int64_t pool_tokens,
                                        double learning_rate) {
  return CatchTorch("training", [&]() -> absl::StatusOr<StepResult> {
    LH_ASSIGN_OR_RETURN(const double loss_sum, ComputeGradients(share, pool_tokens));
    const GradientReduction::Found found = reduction_.Take();
    const UnitCode::Loss weights = weights_.TakeLoss();
    double sums[] = {loss_sum,
                     found.finite ? OwnedSquaredNorm() : std::numeric_limits<double>::infinity(),
                     weights.error_energy,
                     weights.signal_energy,
                     found.loss.error_energy,
                     found.loss.signal_energy};
    LH_RETURN_IF_ERROR(RunQueued("summing the gradient's norm",
                                 [&] { return exchange_->Sum(absl::MakeSpan(sums)); }));
    StepResult result{.loss_sum = sums[0],
                      .gradient_norm = std::sqrt(sums[1]),
                      .weights_nmse = Nmse(sums[2], sums[3]),
                      .gradients_nmse = Nmse(sums[4], sums[5])};
    if (!std::isfinite(result.gradient_norm)) {
      return absl::InternalError(
          absl::StrFormat("the gradient is not finite (loss %g): training diverged; a lower "
                          "learning rate or a longer warm-up may help",
                          result.loss_sum / static_cast<double>(pool_tokens)));
    }
    LH_RETURN_IF_ERROR(Update(learning_rate, result.gradient_norm));
    const ReceivedBytes received = exchange_->received();
    result.received = received - std::exchange(reported_, received);
    return result;
  });
}

absl::StatusOr<double> Engine::ComputeGradients(const TokenBatch& share, int64_t pool_tokens) {
  LH_CHECK(static_cast<int64_t>(share.tokens.size()) == share.sequences * (share.context + 1),
           "a batch has holes");
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
  return ForwardBackward(*model_, ToDevice(share),
                         {.scale = scale, .recompute = recompute_, .trace = trace_.get()}, stream,
                         gradients_, ready);
}

absl::Status Engine::SubmitReduction(int unit, bool last) {
  if (!gradients_.split() && !last) return absl::OkStatus();
  gradients_.Finish(unit);
  reducing_.push_back(
      {unit, queue_->Submit(absl::StrCat("reducing the gradient of ", layout().units[unit].name),
                            [this, unit, last] { return ReduceUnit(unit, last); })});
  return gradients_.split() ? FreeReduced(kUnitsUnderWay) : absl::OkStatus();
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
    reducing_.erase(reducing_.begin());
  }
  return absl::OkStatus();
}

double Engine::OwnedSquaredNorm() const {
  double sum = 0;
  std::vector<at::Tensor> device_norms;  // Read back at once: each reading waits for the device.
  for (int unit = 0; unit < static_cast<int>(layout().units.size()); ++unit) {
    const at::Tensor owned = gradients_.Range(unit, plan_.owned(unit));
    if (device_.is_cpu()) {
      sum += SquaredNorm(SpanOf<const float>(owned));
    } else if (owned.numel() > 0) {
      device_norms.push_back(at::linalg_vector_norm(owned, 2, {}, /*keepdim=*/false, at::kDouble));
    }
  }
  if (!device_norms.empty()) sum = at::stack(device_norms).square().sum().item<double>();
  return sum;
}

// Weights of one unit cross while the next one is updated.
absl::Status Engine::Update(double learning_rate, double gradient_norm) {
  const Trace::Span span(trace_.get(), Trace::Track::kCompute, "update");
  optimizer_->Begin(
      {.learning_rate = learning_rate, .gradient_scale = ClipScale(gradient_norm, clip_norm_)});
  CollectiveQueue::Ticket last = 0;
  size_t run = 0;
  for (int unit = 0; unit < static_cast<int>(layout().units.size()); ++unit) {
    for (; run < plan_.runs().size() && plan_.runs()[run].unit == unit; ++run) {
      const ElementRange& range = plan_.runs()[run].range;
      optimizer_->Update(static_cast<int>(run), SpanOf<float>(weights_.Master(unit, range)),
                         SpanOf<const float>(gradients_.Range(unit, range)));
    }
    last = queue_->Submit(absl::StrCat("refreshing the weights of ", layout().units[unit].name),
                          [this, unit] { return weights_.Refresh(unit); });
  }
  return queue_->Wait(last);
}

absl::StatusOr<double> Engine::LossSum(const TokenBatch& share) {
  return CatchTorch("evaluating", [&]() -> absl::StatusOr<double> {
    WeightStream stream(*model_, weights_, *queue_, EvaluationUses(*model_), gathers_ahead_);
    LH_ASSIGN_OR_RETURN(double sum, ForwardOnly(*model_, ToDevice(share), stream));
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
    weights_.Master(unit, {offset, size}).copy_(OnHost(in.data(), size));
    return absl::OkStatus();
  });
}

const float* Engine::DeviceParameters(int unit, int64_t offset) const {
  return device_.is_cuda() ? weights_.Master(unit, {offset, 0}).const_data_ptr<float>() : nullptr;
}

absl::Status Engine::Publish(absl::Span<const int> units) {
  CollectiveQueue::Ticket last = 0;
  for (int unit : units) {
    last = queue_->Submit(absl::StrCat("publishing ", layout().units[unit].name),
                          [this, unit]() -> absl::Status {
                            LH_RETURN_IF_ERROR(weights_.SpreadMasters(unit));
                            return weights_.Refresh(unit);
                          });
  }
  return queue_->Wait(last);
}

// visit(moments on the device, their first element in the unit).
template <typename Visit>
void Engine::ForMoments(Moment moment, int unit, const ElementRange& range, Visit&& visit) const {
  for (size_t run = 0; run < plan_.runs().size(); ++run) {
    const ElementRange& held = plan_.runs()[run].range;
    const int64_t first = std::max(held.first, range.first);
    const int64_t end = std::min(held.end(), range.end());
    if (plan_.runs()[run].unit != unit || first >= end) continue;
    const absl::Span<float> values = optimizer_->Moments(moment, static_cast<int>(run));
    const at::Tensor all =
        at::from_blob(values.data(), {held.count}, c10::TensorOptions(at::kFloat).device(device_));
    visit(all.narrow(0, first - held.first, end - first), first);
  }
}

absl::Status Engine::ReadMoments(Moment moment, int unit, int64_t offset,
                                 absl::Span<float> out) const {
  return CatchTorch("reading moments", [&]() -> absl::Status {
    const auto size = static_cast<int64_t>(out.size());
    const at::Tensor host = OnHost(out.data(), size);
    ForMoments(moment, unit, {offset, size}, [&](const at::Tensor& part, int64_t first) {
      host.narrow(0, first - offset, part.numel()).copy_(part);
    });
    return absl::OkStatus();
  });
}

absl::Status Engine::WriteMoments(Moment moment, int unit, int64_t offset,
                                  absl::Span<const float> in) {
  return CatchTorch("writing moments", [&]() -> absl::Status {
    const auto size = static_cast<int64_t>(in.size());
    const at::Tensor host = OnHost(in.data(), size);
    ForMoments(moment, unit, {offset, size}, [&](const at::Tensor& part, int64_t first) {
      part.copy_(host.narrow(0, first - offset, part.numel()));
    });
    return absl::OkStatus();
  });
}

absl::Status Engine::PublishMoments(int64_t updates) {
  const Level level = plan_.map().optimizer;
  for (int unit = 0; unit < static_cast<int>(layout().units.size()); ++unit) {
    for (const Moment moment : {Moment::kFirst, Moment::kSecond}) {
      LH_RETURN_IF_ERROR(
          RunQueued(absl::StrCat("publishing moments of ", layout().units[unit].name), [&] {
            const ElementRange held = plan_.Held(unit, level);
            const at::Tensor flat =
                at::zeros({held.count}, c10::TensorOptions(at::kFloat).device(device_));
            ForMoments(moment, unit, held, [&](const at::Tensor& part, int64_t first) {
              flat.narrow(0, first - held.first, part.numel()).copy_(part);
            });
            const absl::Status gathered = GatherFloats(*exchange_, plan_, unit, flat, held.first,
                                                       Level::kPool, level, Use::kRefresh);
            ForMoments(moment, unit, held, [&](const at::Tensor& part, int64_t first) {
              part.copy_(flat.narrow(0, first - held.first, part.numel()));
            });
            return gathered;
          }));
    }
  }
  optimizer_->SetUpdates(updates);
  return absl::OkStatus();
}

StateBytes Engine::state_bytes() const {
  const ComputeWeights::Bytes weights = weights_.kept_bytes();
  return {.weights = weights.weights,
          .secondary = weights.secondary,
          .gradients = gradients_.kept_bytes(),
          // Two moments in float32 beside each master.
          .optimizer = 3 * weights.masters,
          .error_feedback = reduction_.kept_bytes()};
}

}  // namespace longhaul
