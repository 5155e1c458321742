// What offloading to host memory costs on a device, with bf16 weights and a fp32 gradient there.
//   update     the interleaved update of a billion parameters by stride; reference: stride 0, which
//              updates all of them on the host. Gradients are on the host when the clock starts, as
//              after a backward that flushed them
//   backward   from the end of the head's backward until every gradient is in host memory, with
//              the flush beside backward; references: copies to pinned memory after backward, and
//              copies of each unit to pageable memory for which backward waits
//   iteration  a whole step of Engine; reference: a synchronous offload: gradients to pageable
//              memory, the update by the same kernel on the host, and the weights back
//
//   device_offload_benchmark [--device cuda|emulated] [--threads N] [--batch N] [--elements N]
//                            [--repetitions N] [--smoke]
//
// Without a CUDA device: no rows. emulated: a CPU, whose figures mean nothing. --smoke: small, and
// emulated.
#include <algorithm>
#include <chrono>
#include <deque>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ATen/Parallel.h"
#include "ATen/ops/from_blob.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "tests/benchmark/harness/buffer.h"
#include "tests/benchmark/harness/cheap_parameters.h"
#include "tests/benchmark/harness/flags.h"
#include "tests/benchmark/harness/row.h"
#include "tests/testing/token_steps.h"
#include "worker/engine/device.h"
#include "worker/engine/engine.h"
#include "worker/engine/subgroup_tensors.h"
#include "worker/engine/torch_status.h"
#include "worker/model/transformer_lm.h"

namespace longhaul::benchmark {
namespace {

constexpr double kUpdateTarget = 1.4, kBackwardTarget = 1.5, kIterationTarget = 2.5;
constexpr double kLearningRate = 1e-4;

struct Arguments {
  std::string device = "cuda";
  int threads = static_cast<int>(std::thread::hardware_concurrency());
  int repetitions = 5;
  // Of the interleaved update, and of one subgroup: the default of OffloadSpec.
  int64_t elements = 240 << 22, subgroup_elements = 1 << 22;
  // Sequences of a step.
  int64_t batch = 4;
  // 1.04e9 parameters.
  TransformerShape shape = {.layers = 23,
                            .dim = 2048,
                            .heads = 32,
                            .kv_heads = 8,
                            .ff_dim = 5632,
                            .context = 2048,
                            .vocab = 256};
};

void Must(const absl::Status& status) {
  if (!status.ok()) std::cerr << status << std::endl;
  LH_CHECK(status.ok(), "the device failed");
}

template <typename T>
T Value(absl::StatusOr<T> value) {
  Must(value.status());
  return *std::move(value);
}

// Where and how all of it runs.
struct Setup {
  Arguments arguments;
  at::Device device;
  ThreadTeam& team;
  at::ScalarType compute() const { return device.is_cpu() ? at::kFloat : at::kBFloat16; }
  OffloadPlan offload() const {
    return {.optimizer = true, .subgroup_elements = arguments.subgroup_elements};
  }
  std::unique_ptr<TransformerLm> MakeModel() const {
    return Value(TransformerLm::Create(arguments.shape, device));
  }
  // The batch of every step.
  std::vector<int64_t> MakeTokens() const {
    std::vector<int64_t> tokens(arguments.batch * (arguments.shape.context + 1));
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int64_t>(i * i % 251);
    return tokens;
  }
  int64_t tokens() const { return arguments.batch * arguments.shape.context; }
};

void Report(const std::string& name, const Pair& seconds, std::optional<double> target,
            const std::string& note) {
  Print({.name = absl::StrCat("device_offload / ", name),
         .ours = 1e3 * seconds.ours,
         .reference = 1e3 * seconds.reference,
         .ratio = seconds.reference / seconds.ours,
         .target = target,
         .unit = "ms",
         .note = note});
}

class UpdateBenchmark {
 public:
  explicit UpdateBenchmark(const Setup& setup)
      : setup_(setup),
        offload_(Value(OpenOffloadDevice(setup.device, setup.offload()))),
        masters_(Memory<float>(MemorySide::kHost)),
        gradients_(Memory<float>(MemorySide::kDevice)),
        shadow_(Memory<uint16_t>(MemorySide::kDevice)) {}

  void Run() {
    std::vector<int64_t> elements;
    for (int i = 0; i < subgroups(); ++i) elements.push_back(size());
    const int chosen = Value(ChooseUpdateStride(offload_, setup_.offload(), AdamWOptions(),
                                                /*shadow=*/true, 1, elements, setup_.team));
    const auto on_host = Make(0);
    std::map<int, Pair> measured;
    for (const int stride : {2, 3, chosen}) {
      if (!measured.contains(stride)) measured[stride] = Compare(*Make(stride), *on_host);
    }
    const auto report = [&](const std::string& name, int stride, std::optional<double> target) {
      Report(name, measured.at(stride), target,
             absl::StrCat("stride ", stride, ", ", subgroups() * size(), " parameters, ",
                          setup_.team.threads(), " threads; reference: stride 0"));
    };
    report("update, stride 2", 2, std::nullopt);
    report("update, stride 3", 3, std::nullopt);
    report("update, chosen stride", chosen, kUpdateTarget);
  }

 private:
  template <typename T>
  struct Array {
    std::shared_ptr<std::byte> memory;
    absl::Span<T> Part(int subgroup, int64_t size) const {
      return {reinterpret_cast<T*>(memory.get()) + subgroup * size, static_cast<size_t>(size)};
    }
  };
  template <typename T>
  Array<T> Memory(MemorySide side) {
    const int64_t bytes = subgroups() * size() * static_cast<int64_t>(sizeof(T));
    return {Value(offload_.movement->Allocate(side, bytes, "the benchmark"))};
  }
  int64_t size() const { return setup_.arguments.subgroup_elements; }
  int subgroups() const { return static_cast<int>(setup_.arguments.elements / size()); }

  std::unique_ptr<InterleavedAdamW> Make(int stride) {
    std::vector<InterleavedAdamW::Subgroup> all;
    for (int i = 0; i < subgroups(); ++i)
      all.push_back({{.elements = size(), .decay = true}, masters_.Part(i, size())});
    return Value(InterleavedAdamW::Create({.schedule = {.stride = stride}, .shadow = true}, all,
                                          *offload_.movement, offload_.update, &setup_.team));
  }

  Pair Compare(InterleavedAdamW& ours, InterleavedAdamW& reference) {
    Step(ours), Step(reference);  // Warm-up.
    std::vector<double> seconds[2];
    for (int i = 0; i < setup_.arguments.repetitions; ++i) {
      seconds[0].push_back(Step(ours));
      seconds[1].push_back(Step(reference));
    }
    return {Median(seconds[0]), Median(seconds[1])};
  }

  double Step(InterleavedAdamW& optimizer) {
    std::vector<SubgroupUpdate> updates;
    for (int i = 0; i < subgroups(); ++i) {
      updates.push_back({.subgroup = i,
                         .parameters = masters_.Part(i, size()),
                         .gradients = gradients_.Part(i, size()),
                         .shadow = shadow_.Part(i, size())});
      optimizer.FlushGradients(updates.back());
    }
    optimizer.PrefetchState();
    Must(offload_.movement->WaitAll("the backward pass"));
    return Seconds([&] {
      optimizer.Begin({.learning_rate = kLearningRate});
      for (const SubgroupUpdate& update : updates) optimizer.Submit(update);
      Must(optimizer.Finish());
    });
  }

  const Setup& setup_;
  const OffloadDevice offload_;
  const Array<float> masters_, gradients_;
  const Array<uint16_t> shadow_;
};

// Forward and backward of a pool of one rank, by the engine's parts.
class Passes {
 public:
  // `movement` null: masters are on the device, too.
  Passes(const Setup& setup, Movement* movement)
      : model_(setup.MakeModel()),
        scale_(1.0 / static_cast<double>(setup.tokens())),
        exchange_(Value(PoolExchange::Create({}, {}, setup.device))),
        plan_(model_->layout(), {}, exchange_->topology(), 0, CutRule::kBlocks,
              setup.arguments.subgroup_elements),
        weights_(model_->layout(), plan_, *exchange_, setup.device, setup.compute(),
                 {.movement = movement, .masters = movement != nullptr}),
        gradients_(model_->layout(), plan_, setup.device) {
    const CheapParameters initial(model_->layout());
    for (int unit = 0; unit < units(); ++unit) {
      std::vector<float> values(model_->layout().units[unit].elements);
      Must(initial.Read(unit, 0, absl::MakeSpan(values)));
      weights_.master(unit).copy_(TensorOf(absl::MakeSpan(values), at::kCPU));
      Must(weights_.Refresh(unit));
    }
    std::vector<int64_t> tokens = setup.MakeTokens();
    const int64_t context = setup.arguments.shape.context;
    const at::Tensor there = at::from_blob(tokens.data(), {setup.arguments.batch, context + 1},
                                           c10::TensorOptions(at::kLong))
                                 .to(setup.device, /*non_blocking=*/false, /*copy=*/true);
    batch_ = {there.narrow(1, 0, context), there.narrow(1, 1, context)};
  }

  // `ready` is called when a unit's gradient is complete.
  MetricSums Run(const UnitGradientReady& ready) {
    gradients_.BeginStep();
    WeightStream stream(*model_, weights_, *queue_, TrainingUses(*model_), 1);
    return Value(
        ForwardBackward(*model_, batch_, {.scale = scale_}, stream, gradients_, [&](int unit) {
          gradients_.Finish(unit);
          return ready(unit);
        }));
  }

  int units() const { return static_cast<int>(model_->layout().units.size()); }
  const ModelLayout& layout() const { return model_->layout(); }
  const ShardPlan& plan() const { return plan_; }
  ComputeWeights& weights() { return weights_; }
  const FlatGradients& gradients() const { return gradients_; }

 private:
  const std::unique_ptr<TransformerLm> model_;
  const double scale_;
  const std::unique_ptr<PoolExchange> exchange_;
  const ShardPlan plan_;
  ComputeWeights weights_;
  FlatGradients gradients_;
  const std::unique_ptr<StreamQueue> queue_ = MakeImmediateQueue();
  LanguageBatch batch_;
};

class BackwardBenchmark {
 public:
  explicit BackwardBenchmark(const Setup& setup)
      : setup_(setup),
        offload_(Value(OpenOffloadDevice(setup.device, setup.offload()))),
        passes_(setup, offload_.movement.get()),
        pageable_(4 * passes_.layout().elements()) {
    std::vector<InterleavedAdamW::Subgroup> subgroups;
    for (const UnitSubgroup& part : passes_.plan().subgroups()) {
      subgroups.push_back(
          {part.shape, SpanOf<float>(passes_.weights().Master(part.unit, part.range))});
    }
    optimizer_ = Value(
        InterleavedAdamW::Create({}, subgroups, *offload_.movement, offload_.update, &setup.team));
  }

  void Run() {
    for (const Copies copies : {Copies::kBeside, Copies::kAfter, Copies::kBlocking}) Time(copies);
    std::vector<double> seconds[3];
    for (int i = 0; i < setup_.arguments.repetitions; ++i) {
      for (const Copies copies : {Copies::kBeside, Copies::kAfter, Copies::kBlocking})
        seconds[static_cast<int>(copies)].push_back(Time(copies));
    }
    const auto median = [&](Copies copies) { return Median(seconds[static_cast<int>(copies)]); };
    const std::string batch =
        absl::StrCat("batch ", setup_.arguments.batch, " x ", setup_.arguments.shape.context);
    Report("backward with the flush", {median(Copies::kBeside), median(Copies::kAfter)},
           kBackwardTarget,
           absl::StrCat(batch, "; reference: copies to pinned memory after backward"));
    Report("backward with the flush, of synchronous copies",
           {median(Copies::kBeside), median(Copies::kBlocking)}, kBackwardTarget,
           absl::StrCat(batch, "; reference: backward waits for copies to pageable memory"));
  }

 private:
  // When gradients are copied to the host.
  enum class Copies { kBeside, kAfter, kBlocking };
  // As in Engine, whose flush stays that many units behind backward.
  static constexpr size_t kUnitsUnderWay = 2;

  double Time(Copies copies) {
    std::deque<int> ready;
    const auto flush = [&](size_t left) {
      for (; ready.size() > left; ready.pop_front()) Flush(ready.front());
    };
    bool begun = false;
    std::chrono::steady_clock::time_point start;
    passes_.Run([&](int unit) {
      if (!std::exchange(begun, true)) {
        WaitForDevice();
        start = std::chrono::steady_clock::now();
      }
      ready.push_back(unit);
      if (copies == Copies::kBeside) flush(kUnitsUnderWay);
      if (copies == Copies::kBlocking) CopyToPageable(unit);
      return absl::OkStatus();
    });
    if (copies != Copies::kBlocking) flush(0);
    WaitForDevice();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    Must(optimizer_->ForgetGradients());
    return took.count();
  }

  void Flush(int unit) {
    const ShardPlan& plan = passes_.plan();
    for (int i = plan.first_subgroup(unit); i < plan.first_subgroup(unit + 1); ++i) {
      const ElementRange& range = plan.subgroups()[i].range;
      optimizer_->FlushGradients(
          {.subgroup = i,
           .gradients = SpanOf<const float>(passes_.gradients().Range(unit, range))});
    }
  }

  void CopyToPageable(int unit) {
    const at::Tensor& gradient = passes_.gradients().sum(unit);
    TensorOf(pageable_.floats().first(gradient.numel()), at::kCPU).copy_(gradient);
  }

  void WaitForDevice() {
    Must(offload_.movement->WaitAll("the flush"));
    Must(offload_.movement->Wait(Value(offload_.movement->Fork()), "the passes"));
  }

  const Setup& setup_;
  const OffloadDevice offload_;
  Passes passes_;
  const Buffer pageable_;
  std::unique_ptr<InterleavedAdamW> optimizer_;
};

// What the engine is compared with: nothing overlaps, and host memory is pageable.
class SynchronousOffload {
 public:
  explicit SynchronousOffload(const Setup& setup)
      : setup_(setup),
        passes_(setup, nullptr),
        gradients_(Bytes()),
        parameters_(Bytes()),
        moment_(Bytes()),
        variance_(Bytes()),
        shadow_(Bytes() / 2) {
    int64_t first = 0;
    for (const UnitSubgroup& part : passes_.plan().subgroups()) {
      first_.push_back(first);
      first += part.shape.elements;
      On(parameters_, first_.back(), part).copy_(passes_.weights().Master(part.unit, part.range));
    }
  }

  // Returns the loss before the update.
  double Step() {
    ++updates_;
    const MetricSums sums = passes_.Run([&](int unit) {
      const int first = passes_.plan().first_subgroup(unit);
      const at::Tensor& gradient = passes_.gradients().sum(unit);
      TensorOf(gradients_.floats().subspan(first_[first], gradient.numel()), at::kCPU)
          .copy_(gradient);
      return absl::OkStatus();
    });
    const auto& subgroups = passes_.plan().subgroups();
    for (size_t i = 0; i < subgroups.size(); ++i) Update(first_[i], subgroups[i]);
    for (size_t i = 0; i < subgroups.size(); ++i) CopyBack(first_[i], subgroups[i]);
    for (int unit = 0; unit < passes_.units(); ++unit)
      Must(passes_.weights().Refresh(unit, ComputeWeights::From::kShadow));
    return sums.Total()[0] / static_cast<double>(setup_.tokens());
  }

 private:
  int64_t Bytes() const { return 4 * passes_.layout().elements(); }
  static at::Tensor On(const Buffer& buffer, int64_t first, const UnitSubgroup& part) {
    return TensorOf(buffer.floats().subspan(first, part.shape.elements), at::kCPU);
  }
  uint16_t* ShadowAt(int64_t first) const {
    return reinterpret_cast<uint16_t*>(shadow_.bytes().data()) + first;
  }

  void Update(int64_t first, const UnitSubgroup& part) {
    AdamWKernel(
        MakeAdamWConstants({}, {.learning_rate = kLearningRate}, updates_, part.shape.decay),
        part.shape.elements,
        {.gradients = gradients_.floats().data() + first,
         .parameters = parameters_.floats().data() + first,
         .shadow = ShadowAt(first),
         .moment = moment_.floats().data() + first,
         .variance = variance_.floats().data() + first},
        &setup_.team);
  }

  // Matrices go back in the precision that computes, vectors as masters.
  void CopyBack(int64_t first, const UnitSubgroup& part) {
    const at::Tensor narrow = passes_.weights().Shadow(part.unit, part.range);
    if (narrow.defined()) {
      const auto size = static_cast<size_t>(part.shape.elements);
      narrow.copy_(TensorOf(absl::Span<uint16_t>(ShadowAt(first), size), at::kCPU));
    }
    if (!narrow.defined() || !part.shape.decay) {
      passes_.weights().Master(part.unit, part.range).copy_(On(parameters_, first, part));
    }
  }

  const Setup& setup_;
  Passes passes_;
  const Buffer gradients_, parameters_, moment_, variance_, shadow_;
  // The first element of each subgroup in these.
  std::vector<int64_t> first_;
  int64_t updates_ = 0;
};

struct Steps {
  double seconds = 0;
  // Of the last step.
  double loss = 0;
};

// `step` returns its loss.
template <typename Step>
Steps Time(int repetitions, Step&& step) {
  for (int i = 0; i < 2; ++i) step();  // Warm-up.
  Steps steps;
  std::vector<double> seconds;
  for (int i = 0; i < repetitions; ++i) seconds.push_back(Seconds([&] { steps.loss = step(); }));
  steps.seconds = Median(seconds);
  return steps;
}

Steps TimeEngine(const Setup& setup, std::string& schedule) {
  const Arguments& arguments = setup.arguments;
  const ModelLayout layout = LayOutTransformer(arguments.shape).value();
  const auto engine = Value(Engine::Create(
      {.plan = {.optimizer = AdamWOptions(),
                .clip_norm = 0,
                .offload = setup.offload(),
                .precision = PrecisionOf(setup.compute()),
                .blocks = Blocks::kAutograd},
       .site = {.team = std::shared_ptr<ThreadTeam>(&setup.team, [](ThreadTeam*) {})},
       .model = setup.MakeModel(),
       .device = setup.device,
       .initial = std::make_shared<CheapParameters>(layout)}));
  schedule = engine->schedule()->Describe();
  const std::vector<int64_t> tokens = setup.MakeTokens();
  return Time(arguments.repetitions, [&] {
    const StepResult step = Value(Step(*engine, {arguments.batch, arguments.shape.context, tokens},
                                       setup.tokens(), kLearningRate));
    return step.loss_sum / static_cast<double>(setup.tokens());
  });
}

void CompareIterations(const Setup& setup) {
  std::string schedule;
  // One after the other, since both hold the whole state.
  const Steps ours = TimeEngine(setup, schedule);
  SynchronousOffload reference(setup);
  const Steps theirs = Time(setup.arguments.repetitions, [&] { return reference.Step(); });
  Report("iteration", {ours.seconds, theirs.seconds}, kIterationTarget,
         absl::StrCat("batch ", setup.arguments.batch, " x ", setup.arguments.shape.context, ", ",
                      schedule, "; losses at the end ", ours.loss, " and ", theirs.loss,
                      "; reference: synchronous offload to pageable memory"));
}

absl::Status RunAll(const Arguments& arguments) {
  at::Device device(at::kCPU);
  if (arguments.device == "cuda") {
    LH_ASSIGN_OR_RETURN(device, OpenCudaDevice(0));
  }
  at::set_num_threads(arguments.threads);
  ThreadTeam team(arguments.threads);
  const Setup setup{arguments, device, team};
  UpdateBenchmark(setup).Run();
  BackwardBenchmark(setup).Run();
  CompareIterations(setup);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Arguments arguments;
  bool smoke = false;
  const auto end =
      ReadFlags("What offloading to host memory costs on a device.", argc, argv,
                {{.name = "--device", .value = &arguments.device, .choices = {"cuda", "emulated"}},
                 {"--threads", &arguments.threads},
                 {"--batch", &arguments.batch},
                 {"--elements", &arguments.elements},
                 {"--repetitions", &arguments.repetitions},
                 {"--smoke", &smoke, "small, on the emulated device"}});
  if (end) return *end;
  if (smoke) {
    arguments.device = "emulated";
    arguments.threads = arguments.repetitions = 1;
    arguments.subgroup_elements = 4096;
    arguments.elements = 8 * arguments.subgroup_elements;
    arguments.batch = 2;
    arguments.shape = {.layers = 2,
                       .dim = 32,
                       .heads = 2,
                       .kv_heads = 1,
                       .ff_dim = 64,
                       .context = 32,
                       .vocab = 256};
  }
  const absl::Status status = CatchTorch("measuring", [&] { return RunAll(arguments); });
  if (status.ok()) return 0;
  std::cerr << "device_offload_benchmark: " << status.message() << std::endl;
  return absl::IsFailedPrecondition(status) ? 0 : 1;  // No CUDA device.
}

}  // namespace
}  // namespace longhaul::benchmark

int main(int argc, char** argv) { return longhaul::benchmark::Main(argc, argv); }
