// What an epoch of GraphSAGE takes, on a graph of Reddit's shape (233,000 nodes, 602 columns,
// fan-out 25,10, two layers of 256).
//   cpu    reference: PyTorch's operators on as many threads (index_select, index_add, linear,
//          autograd), one batch after another. It is given the batches of our sampler
//   cuda   zero_copy; reference: host, both as a job runs. No rows without a CUDA device
// And the share of the time that training waits for batches.
//
//   graph_epoch_benchmark [--device cpu|cuda] [--threads N] [--degree N] [--steps N] [--smoke]
#include <algorithm>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ATen/Parallel.h"
#include "ATen/TensorOperators.h"
#include "ATen/core/Reduction.h"
#include "ATen/core/grad_mode.h"
#include "ATen/ops/addcdiv.h"
#include "ATen/ops/dropout.h"
#include "ATen/ops/from_blob.h"
#include "ATen/ops/linear.h"
#include "ATen/ops/log_softmax.h"
#include "ATen/ops/nll_loss.h"
#include "ATen/ops/randn.h"
#include "ATen/ops/relu.h"
#include "ATen/ops/repeat_interleave.h"
#include "ATen/ops/zeros.h"
#include "ATen/ops/zeros_like.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "tests/benchmark/graph/reddit_shape.h"
#include "tests/benchmark/harness/flags.h"
#include "tests/benchmark/harness/row.h"
#include "tests/testing/temp_dir.h"
#include "torch/csrc/autograd/autograd.h"
#include "worker/data/prefetched_batches.h"
#include "worker/engine/device.h"
#include "worker/engine/engine.h"
#include "worker/engine/torch_status.h"
#include "worker/family/family.h"
#include "worker/family/graph/graph_family.h"
#include "worker/graph/neighbor_sampler.h"
#include "worker/graph/seed_plan.h"

namespace longhaul::benchmark {
namespace {

constexpr double kWaitTarget = 0.02;

struct Sizes {
  int64_t nodes = 233000, degree = 100, columns = 602, batch = 1024, hidden = 256, classes = 41;
  std::vector<int64_t> fanout = {25, 10};
  // Of a measurement; how many there are.
  int steps = 4, repetitions = 3;
  int threads = static_cast<int>(std::thread::hardware_concurrency());
};

void Must(const absl::Status& status) {
  if (!status.ok()) std::cerr << status << std::endl;
  LH_CHECK(status.ok(), "the benchmark failed");
}
template <typename T>
T Value(absl::StatusOr<T> value) {
  Must(value.status());
  return *std::move(value);
}

// A job of one rank, as TorchReplica steps it.
class Ours {
 public:
  Ours(const Sizes& sizes, const std::string& path, at::Device device,
       std::optional<FeatureAccess> access) {
    const TrainingPlan plan{.batch = sizes.batch,
                            .seed = 1,
                            .optimizer = AdamWOptions{},
                            .partition = PartitionPreset("ddp").value()};
    const GraphOptions options{.shape = {.columns = sizes.columns,
                                         .hidden = sizes.hidden,
                                         .classes = sizes.classes,
                                         .fanout = sizes.fanout},
                               .path = path,
                               .features = {.access = access},
                               .threads = sizes.threads};
    family_ = Value(GraphFamily(options)({.plan = plan, .device = device}));
    batches_ = std::make_unique<PrefetchedBatches>(std::move(family_.maker));
    engine_ = Value(Engine::Create({.plan = plan,
                                    .site = {.threads = sizes.threads},
                                    .model = std::move(family_.model),
                                    .device = device}));
  }
  const std::string& features() const { return family_.features; }

  // The seconds of so many steps. Nothing is made ahead of the first, nor for other steps after the
  // last.
  double Time(int steps) {
    Step();
    WaitShare();
    const double seconds = Seconds([&] {
      for (int i = 0; i < steps; ++i) Step();
    });
    shares_.push_back(WaitShare());
    ahead_ = Value(batches_->Take(step_ + 1));
    return seconds;
  }
  double wait_share() const { return Median(shares_); }

 private:
  void Step() {
    ++step_;
    ExampleBatch batch;
    const double waited = Seconds([&] { batch = Next(); });
    batches_->Prepare(step_ + 1);
    const double trained = Seconds([&] {
      // Frees the one before.
      batch_ = std::move(batch);
      Must(engine_
               ->Step([&](int micro, int of) { return family_.stager->Stage(batch_, micro, of); },
                      static_cast<double>(batch_.pool_weight), 0.003)
               .status());
    });
    waited_ += waited;
    all_ += waited + trained;
  }
  ExampleBatch Next() {
    if (!ahead_.has_value()) return Value(batches_->Take(step_));
    ExampleBatch next = *std::move(ahead_);
    ahead_.reset();
    return next;
  }
  // Since the last call.
  double WaitShare() {
    const double waited = std::exchange(waited_, 0), all = std::exchange(all_, 0);
    return waited / all;
  }

  Family family_;
  std::unique_ptr<PrefetchedBatches> batches_;
  std::unique_ptr<Engine> engine_;
  ExampleBatch batch_;
  std::optional<ExampleBatch> ahead_;
  std::vector<double> shares_;
  int64_t step_ = 0;
  double waited_ = 0, all_ = 0;
};

class InTorch {
 public:
  InTorch(const Sizes& sizes, const std::string& path)
      : sizes_(sizes),
        folder_(Value(GraphFolder::Open(path))),
        team_(sizes.threads),
        plan_(Value(SeedPlan::Create({.seeds = static_cast<int64_t>(folder_.train().size()),
                                      .batch = sizes.batch,
                                      .seed = 1}))),
        sampler_(
            Value(NeighborSampler::Create(folder_.edges(), {.fanout = sizes.fanout, .seed = 1}))) {
    features_ = at::from_blob(const_cast<float*>(folder_.features().data()),
                              {sizes.nodes, sizes.columns}, at::kFloat)
                    .clone();
    const int64_t widths[] = {sizes.columns, sizes.hidden, sizes.classes};
    for (int layer = 0; layer < 2; ++layer) {
      for (int i = 0; i < 2; ++i)
        weights_.push_back((at::randn({widths[layer + 1], widths[layer]}) * 0.05).requires_grad_());
      weights_.push_back(at::zeros({widths[layer + 1]}).requires_grad_());
    }
    for (const at::Tensor& weight : weights_) {
      means_.push_back(at::zeros_like(weight));
      squares_.push_back(at::zeros_like(weight));
    }
  }

  double Time(int steps) {
    Step();
    return Seconds([&] {
      for (int i = 0; i < steps; ++i) Step();
    });
  }

 private:
  void Step() {
    std::vector<int64_t> seeds = plan_.Take(++step_, 0, 1), labels;
    for (int64_t& seed : seeds) {
      seed = folder_.train()[seed];
      labels.push_back(folder_.labels()[seed]);
    }
    const SampledBatch batch = Value(sampler_.Sample(step_, seeds, {}, &team_));
    at::Tensor x = features_.index_select(0, ViewOf(batch.nodes, at::kLong));
    const at::Tensor indptr = ViewOf(batch.indptr, at::kLong);
    const at::Tensor sources = ViewOf(batch.source_rows, at::kInt).to(at::kLong);
    for (int layer = 0; layer < 2; ++layer) {
      const int64_t targets = batch.level_ends[1 - layer], edges = batch.indptr[targets];
      const at::Tensor degrees = indptr.slice(0, 1, targets + 1) - indptr.slice(0, 0, targets);
      const at::Tensor to = at::repeat_interleave(degrees);
      const at::Tensor rows = x.index_select(0, sources.narrow(0, 0, edges));
      const at::Tensor means = at::zeros({targets, x.size(1)}).index_add(0, to, rows) /
                               degrees.clamp_min(1).unsqueeze(1);
      x = at::linear(x.narrow(0, 0, targets), weights_[3 * layer], weights_[3 * layer + 2]) +
          at::linear(means, weights_[3 * layer + 1]);
      if (layer == 0) x = at::dropout(at::relu(x), 0.5, true);
    }
    const at::Tensor loss = at::nll_loss(at::log_softmax(x, 1), ViewOf(labels, at::kLong));
    const auto gradients = torch::autograd::grad({loss}, weights_);
    const at::NoGradGuard no_gradients;
    for (size_t i = 0; i < weights_.size(); ++i) {
      means_[i].mul_(0.9).add_(gradients[i], 0.1);
      squares_[i].mul_(0.999).addcmul_(gradients[i], gradients[i], 0.001);
      weights_[i].addcdiv_(means_[i], squares_[i].sqrt().add_(1e-8), -0.003);
    }
  }

  template <typename T>
  static at::Tensor ViewOf(const std::vector<T>& values, at::ScalarType type) {
    return at::from_blob(const_cast<T*>(values.data()), {static_cast<int64_t>(values.size())},
                         type);
  }

  const Sizes sizes_;
  const GraphFolder folder_;
  ThreadTeam team_;
  const SeedPlan plan_;
  NeighborSampler sampler_;
  at::Tensor features_;
  std::vector<at::Tensor> weights_, means_, squares_;
  int64_t step_ = 0;
};

// `reference`: the seconds of so many steps.
void Compare(const Sizes& sizes, const std::string& what, Ours& ours,
             const std::function<double(int steps)>& reference) {
  std::vector<double> of_ours, of_reference;
  for (int i = 0; i < sizes.repetitions; ++i) {
    of_ours.push_back(ours.Time(sizes.steps));
    of_reference.push_back(reference(sizes.steps));
  }
  const double epoch =
      static_cast<double>(sizes.nodes) * 2 / 3 / static_cast<double>(sizes.batch) / sizes.steps;
  const double mine = Median(of_ours) * epoch, theirs = Median(of_reference) * epoch;
  Print({.name = absl::StrCat("graph / epoch, ", what),
         .ours = mine,
         .reference = theirs,
         .ratio = theirs / mine,
         .target = 1.3,
         .unit = "s",
         .note = absl::StrCat("of ", sizes.steps, " steps; ", sizes.nodes, " nodes, mean degree ",
                              sizes.degree, ", ", sizes.columns, " columns, ", sizes.threads,
                              " threads; ", ours.features())});
  const double share = ours.wait_share();
  Print({.name = absl::StrCat("graph / waiting for batches, ", what),
         .ours = share,
         .reference = kWaitTarget,
         .ratio = kWaitTarget / std::max(share, 1e-6),
         .target = 1,
         .unit = "of the time",
         .note = "reference: 2 %"});
}

absl::Status RunAll(const Sizes& sizes, const std::string& device_name) {
  at::Device device(at::kCPU);
  if (device_name == "cuda") {
    LH_ASSIGN_OR_RETURN(device, OpenCudaDevice(0));
  }
  at::set_num_threads(sizes.threads);
  const TempDir folder;
  const std::string path = folder.Join("graph");
  WriteRedditShape(RedditShape(sizes.nodes, sizes.degree), sizes.columns, path);
  if (device.is_cpu()) {
    Ours ours(sizes, path, device, std::nullopt);
    InTorch reference(sizes, path);
    Compare(sizes, "cpu, PyTorch with index_select", ours,
            [&](int steps) { return reference.Time(steps); });
    return absl::OkStatus();
  }
  Ours ours(sizes, path, device, FeatureAccess::kZeroCopy);
  Ours host(sizes, path, device, FeatureAccess::kHost);
  Compare(sizes, "cuda, zero_copy, host", ours, [&](int steps) { return host.Time(steps); });
  Ours fastest(sizes, path, device, std::nullopt);
  std::cerr << "fastest: " << fastest.features() << std::endl;
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Sizes sizes;
  std::string device = "cpu";
  bool smoke = false;
  const auto end = ReadFlags("What an epoch of GraphSAGE takes.", argc, argv,
                             {{.name = "--device", .value = &device, .choices = {"cpu", "cuda"}},
                              {"--threads", &sizes.threads},
                              {"--degree", &sizes.degree, "of a node, on average"},
                              {"--steps", &sizes.steps, "of each of the measurements"},
                              {"--smoke", &smoke, "small and short"}});
  if (end) return *end;
  if (smoke) {
    sizes = {.nodes = 2000, .degree = 10, .columns = 20, .batch = 50, .hidden = 16, .threads = 1};
    sizes.steps = sizes.repetitions = 1;
  }
  const absl::Status status = CatchTorch("measuring", [&] { return RunAll(sizes, device); });
  if (status.ok()) return 0;
  std::cerr << "graph_epoch_benchmark: " << status.message() << std::endl;
  return absl::IsFailedPrecondition(status) ? 0 : 1;  // No CUDA device.
}

}  // namespace
}  // namespace longhaul::benchmark

int main(int argc, char** argv) { return longhaul::benchmark::Main(argc, argv); }
