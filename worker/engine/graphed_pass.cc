#include "worker/engine/graphed_pass.h"

#include <cmath>
#include <utility>

#include "ATen/ops/empty_like.h"
#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "worker/engine/unit_pass.h"

namespace longhaul {
namespace {

// How much the losses of a pass and of its graphs may differ, relatively. Their kernels are the
// same, but some may sum in another order if they have other scratch memory. A graph that computes
// something else differs by far more.
constexpr double kLossTolerance = 1e-3;

absl::Status CheckLoss(const at::Tensor& recorded, const at::Tensor& expected) {
  const double is = recorded[0].item<double>(), should_be = expected[0].item<double>();
  // A loss that is not finite is told by the step.
  if (!std::isfinite(should_be) || std::abs(is - should_be) <= kLossTolerance * std::abs(should_be))
    return absl::OkStatus();
  return absl::InternalError(absl::StrFormat(
      "a CUDA graph gives a loss of %g where the recorded pass gave %g: set train.cuda_graphs to "
      "false",
      is, should_be));
}

}  // namespace

GraphedPass::GraphedPass(const Model& model, const ComputeWeights& weights,
                         std::unique_ptr<GraphRecorder> recorder,
                         std::function<absl::Status()> await_device)
    : model_(model), recorder_(std::move(recorder)), await_device_(std::move(await_device)) {
  LH_CHECK(!weights.split(), "a graph needs weights that stay where they are");
  for (int unit = 0; unit < UnitCount(model); ++unit)
    leaves_.push_back(weights.Leaves(unit, model.Borrowed(unit)));
}

GraphedPass::OfSize& GraphedPass::SizeOf(const StagedBatch& batch) {
  std::vector<std::vector<int64_t>> shapes;
  for (const at::Tensor& tensor : batch.tensors)
    shapes.push_back(tensor.defined() ? tensor.sizes().vec() : std::vector<int64_t>{-1});
  OfSize& of = sizes_[shapes];
  of.batch.examples = batch.examples;
  of.batch.tensors.resize(batch.tensors.size());
  for (size_t i = 0; i < batch.tensors.size(); ++i) {
    const at::Tensor& given = batch.tensors[i];
    at::Tensor& kept = of.batch.tensors[i];
    if (!given.defined()) continue;
    if (!kept.defined()) kept = at::empty_like(given);
    kept.copy_(given);
  }
  if (!of.gradient.defined())
    of.gradient = GradientOfSums(model_, /*scale=*/1, leaves_[0][0].device());
  return of;
}

absl::StatusOr<MetricSums> GraphedPass::ForwardBackward(const StagedBatch& batch,
                                                        const PassOptions& options,
                                                        FlatGradients& gradients,
                                                        const UnitGradientReady& ready) {
  LH_CHECK(options.fused == nullptr && !gradients.split(), "a pass that cannot be recorded");
  OfSize& of = SizeOf(batch);
  of.gradient.narrow(0, 0, 1).fill_(options.scale);
  Recording& recording = gradients.any() ? of.adding : of.overwriting;
  at::Tensor expected;
  if (recording.graphs.empty()) {
    recorder_->WarmUp(
        [&] { expected = Pass(of, options.recompute, nullptr, [](const auto& part) { part(); }); });
    LH_RETURN_IF_ERROR(await_device_());
    recording = Record(of, options.recompute, gradients);
  }
  auto next = recording.graphs.begin();
  const auto launch = [&](absl::string_view what, int unit) {
    const Trace::Span span = TraceSpanOf(options.trace, what, model_, unit);
    (*next++)->Launch();
  };
  const auto written = [&](int unit) {
    for (const TensorRef& ref : RefsOf(model_, unit)) gradients.Slot(ref);
    return ready(unit);
  };
  const int last = UnitCount(model_) - 1;
  for (int unit = 0; unit < last; ++unit) launch("forward ", unit);
  launch("forward and backward ", last);
  if (expected.defined()) {
    LH_RETURN_IF_ERROR(await_device_());
    LH_RETURN_IF_ERROR(CheckLoss(recording.sums, expected));
  }
  MetricSums sums(model_);
  sums.Add(recording.sums);
  LH_RETURN_IF_ERROR(written(last));
  for (int unit = last - 1; unit >= 0; --unit) {
    launch("backward ", unit);
    LH_RETURN_IF_ERROR(written(unit));
  }
  return sums;
}

at::Tensor GraphedPass::Pass(const OfSize& of, bool recompute, FlatGradients* gradients,
                             absl::FunctionRef<void(const std::function<void()>& part)> run) {
  const auto recomputes = [&](int unit) { return recompute && Recomputes(model_, unit); };
  std::vector<Segment> segments;
  at::Tensor x, gradient, sums;
  const int last = UnitCount(model_) - 1;
  for (int unit = 0; unit < last; ++unit) {
    run([&] {
      segments.push_back(recomputes(unit)
                             ? ForwardToRecompute(model_, unit, x, of.batch, leaves_[unit])
                             : ForwardUnit(model_, unit, x, of.batch, leaves_[unit]));
      x = segments.back().output;
    });
  }
  run([&] {
    Model::LastUnit result =
        LastUnitPass(model_, leaves_[last], std::exchange(x, {}), of.batch, of.gradient, gradients);
    sums = std::move(result.sums);
    gradient = std::move(result.of_x);
  });
  for (int unit = last - 1; unit >= 0; --unit) {
    run([&] {
      Segment& segment = segments.back();
      if (recomputes(unit))
        segment = ForwardUnit(model_, unit, segment.input, of.batch, leaves_[unit]);
      gradient = gradients == nullptr ? GradientsOf(segment, gradient).back()
                                      : BackwardUnit(model_, unit, segment, gradient, *gradients);
      segments.pop_back();
    });
  }
  return sums;
}

GraphedPass::Recording GraphedPass::Record(const OfSize& of, bool recompute,
                                           FlatGradients& gradients) {
  Recording recording;
  recording.sums = Pass(of, recompute, &gradients, [&](const std::function<void()>& part) {
    recording.graphs.push_back(recorder_->Record(part));
  });
  return recording;
}

}  // namespace longhaul
