// AdamW in host memory against torch's fused kernel, DeepSpeed's CPUAdam, a plain SIMD stream over
// the same arrays, and a loop without vectors: n fp32 parameters, gradients and two moments, with
// and without a bf16 shadow. The peers make the shadow by a copy after their update.
//
// And what the rank's threads bring to the passes around it: squared norm, sum of two ranks'
// gradients, merge, each against one thread.
//
//   optimizer_benchmark [--deepspeed LIBRARY] [--elements N] [--repetitions R] [--smoke]
//
// LIBRARY: DeepSpeed's cpu_adam as optimizer.py builds it; without it its rows are left out.
#include <dlfcn.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "ATen/Parallel.h"
#include "ATen/core/grad_mode.h"
#include "ATen/ops/_fused_adamw.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "tests/benchmark/harness/buffer.h"
#include "tests/benchmark/harness/flags.h"
#include "tests/benchmark/harness/row.h"
#include "tests/benchmark/optimizer/plain_adamw.h"
#include "tests/benchmark/optimizer/stream.h"
#include "worker/collective/rank_order_sum.h"
#include "worker/engine/subgroup_tensors.h"
#include "worker/optim/adamw.h"
#include "worker/optim/adamw_constants.h"
#include "worker/optim/squared_norm.h"
#include "worker/session/merge_parameters.h"

namespace longhaul::benchmark {
namespace {

// Peers take the arrays as they lie: alike in their pages, torch has a fifth of its rate on some
// processors.
constexpr size_t kSkew = 1088;
constexpr double kRate = 1e-3, kBeta1 = 0.9, kBeta2 = 0.99, kEps = 1e-8, kDecay = 0.1;

// As cpu_adam_impl.cpp declares them.
using CreateAdam = int (*)(int, float, float, float, float, float, bool, bool);
using AdamStep = int (*)(int, size_t, float, float, float, float, float, bool, at::Tensor&,
                         at::Tensor&, at::Tensor&, at::Tensor&);

struct Arrays {
  explicit Arrays(int64_t n)
      : parameters(4 * n),
        gradients(4 * n, kSkew),
        moment(4 * n, 2 * kSkew),
        variance(4 * n, 3 * kSkew),
        shadow(2 * n) {
    for (int64_t i = 0; i < n; ++i) {
      parameters.floats()[i] = 0.01f * static_cast<float>(i % 101 - 50);
      gradients.floats()[i] = 1e-3f * static_cast<float>(i % 97 - 48);
    }
  }
  absl::Span<uint16_t> shadow_bits() {
    return {reinterpret_cast<uint16_t*>(shadow.bytes().data()), parameters.floats().size()};
  }
  Buffer parameters, gradients, moment, variance, shadow;
};

at::Tensor Tensor(Buffer& buffer) { return TensorOf(buffer.floats(), at::kCPU); }

class Contest {
 public:
  Contest(int64_t elements, int threads, int repetitions)
      : elements_(elements),
        threads_(threads),
        repetitions_(repetitions),
        team_(threads),
        arrays_(elements),
        adamw_({.weight_decay = kDecay}, {{elements, true}}, &team_) {
    at::set_num_threads(threads);
  }

  void AgainstTorch() {
    const at::Tensor steps = Tensor(arrays_.parameters).new_zeros({});
    Against("torch", [&] {
      steps.add_(1);
      at::_fused_adamw_({Tensor(arrays_.parameters)}, {Tensor(arrays_.gradients)},
                        {Tensor(arrays_.moment)}, {Tensor(arrays_.variance)}, {}, {steps}, kRate,
                        kBeta1, kBeta2, kDecay, kEps, false, false);
    });
  }

  void AgainstPlainLoop() {
    const double count = static_cast<double>(elements_) / 1e9;
    int64_t updates = 0;
    const Pair pair = Alternate(
        repetitions_, [&] { Update(false); },
        [&] {
          const AdamWConstants constants = MakeAdamWConstants(
              {.weight_decay = kDecay}, {.learning_rate = kRate}, ++updates, /*decay=*/true);
          PlainAdamW(constants, elements_, arrays_.gradients.floats().data(),
                     arrays_.parameters.floats().data(), arrays_.moment.floats().data(),
                     arrays_.variance.floats().data());
        });
    Report("plain loop", count / pair.ours, count / pair.reference, 4, "Gparam/s");
  }

  // Bytes over time of passes that share the team, against the same passes on one thread.
  void AgainstOneThread() {
    const auto n = static_cast<double>(4 * elements_);
    const absl::Span<float> out = arrays_.moment.floats();
    const absl::Span<const float> gradients = arrays_.gradients.floats();
    const absl::Span<const float> outer = arrays_.parameters.floats();
    const float* const ranks[] = {gradients.data(), outer.data()};
    double norm = 0;
    AgainstOneThread("squared norm", n,
                     [&](ThreadTeam* team) { norm += SquaredNorm(gradients, team); });
    AgainstOneThread("sum of two ranks", 3 * n, [&](ThreadTeam* team) {
      RankOrderSum<float>(ranks, out.data(), elements_, team);
    });
    AgainstOneThread("merge", 3 * n,
                     [&](ThreadTeam* team) { session::MergeParameters(0.5, outer, out, team); });
    LH_CHECK(norm > 0, "nothing was measured");
  }

  void AgainstDeepSpeed(CreateAdam create, AdamStep step) {
    create(0, kRate, kBeta1, kBeta2, kEps, kDecay, /*adamw_mode=*/true, /*should_log=*/false);
    size_t count = 0;
    Against("deepspeed", [&] {
      at::Tensor p = Tensor(arrays_.parameters), g = Tensor(arrays_.gradients);
      at::Tensor m = Tensor(arrays_.moment), v = Tensor(arrays_.variance);
      step(0, ++count, kRate, kBeta1, kBeta2, kEps, kDecay, true, p, g, m, v);
    });
  }

  // Bytes over time of the same arrays: four read, three written.
  void AgainstStream() {
    const Pair pair = Alternate(
        repetitions_, [&] { Update(false); },
        [&] {
          team_.ForParts(elements_, 128, [&](int64_t first, int64_t end) {
            Stream(end - first, arrays_.gradients.floats().data() + first,
                   arrays_.parameters.floats().data() + first,
                   arrays_.moment.floats().data() + first,
                   arrays_.variance.floats().data() + first);
          });
        });
    const double bytes = 7.0 * 4.0 * static_cast<double>(elements_) / 1e9;
    Report("stream", bytes / pair.ours, bytes / pair.reference, 0.9, "GB/s");
  }

 private:
  void AgainstOneThread(const std::string& name, double bytes,
                        const std::function<void(ThreadTeam*)>& pass) {
    const Pair pair = Alternate(
        repetitions_, [&] { pass(&team_); }, [&] { pass(nullptr); });
    Print({.name = absl::StrCat("rank's threads / ", name, ", ", threads_, " threads"),
           .ours = bytes / pair.ours / 1e9,
           .reference = bytes / pair.reference / 1e9,
           .ratio = pair.reference / pair.ours,
           .target = std::nullopt,
           .unit = "GB/s",
           .note = "reference: one thread"});
  }

  void Update(bool shadow) {
    adamw_.Begin({.learning_rate = kRate});
    adamw_.Submit({.parameters = arrays_.parameters.floats(),
                   .gradients = arrays_.gradients.floats(),
                   .shadow = shadow ? arrays_.shadow_bits() : absl::Span<uint16_t>()});
  }

  void Against(const std::string& name, const std::function<void()>& peer) {
    const double count = static_cast<double>(elements_) / 1e9;
    const Pair plain = Alternate(
        repetitions_, [&] { Update(false); }, peer);
    Report(name, count / plain.ours, count / plain.reference, 1.05, "Gparam/s");
    const Pair shadowed = Alternate(
        repetitions_, [&] { Update(true); },
        [&] {
          peer();
          TensorOf(arrays_.shadow_bits(), at::kCPU).copy_(Tensor(arrays_.parameters));
        });
    Report(name + ", shadow", count / shadowed.ours, count / shadowed.reference, 1.5, "Gparam/s");
  }

  void Report(const std::string& name, double ours, double reference, double target,
              const std::string& unit) {
    Print({.name = absl::StrCat("adamw / ", name, ", ", threads_,
                                threads_ == 1 ? " thread" : " threads"),
           .ours = ours,
           .reference = reference,
           .ratio = ours / reference,
           .target = target,
           .unit = unit});
  }

  const int64_t elements_;
  const int threads_, repetitions_;
  ThreadTeam team_;
  Arrays arrays_;
  AdamW adamw_;
};

void Run(int64_t elements, int repetitions, const std::string& deepspeed) {
  const at::NoGradGuard no_grad;
  void* const library = deepspeed.empty() ? nullptr : dlopen(deepspeed.c_str(), RTLD_NOW);
  LH_CHECK(deepspeed.empty() || library != nullptr, "cannot load DeepSpeed's library");
  for (const int threads : {1, 2}) {
    Contest contest(elements, threads, repetitions);
    contest.AgainstStream();
    if (threads == 1) contest.AgainstPlainLoop();
    if (threads > 1) contest.AgainstOneThread();
    contest.AgainstTorch();
    if (library == nullptr) continue;
    contest.AgainstDeepSpeed(reinterpret_cast<CreateAdam>(dlsym(library, "longhaul_create_adam")),
                             reinterpret_cast<AdamStep>(dlsym(library, "longhaul_adam_step")));
  }
}

}  // namespace
}  // namespace longhaul::benchmark

int main(int argc, char** argv) {
  int64_t elements = int64_t{1} << 26;
  int repetitions = 9;
  bool smoke = false;
  std::string deepspeed;
  const auto end = longhaul::benchmark::ReadFlags(
      "AdamW in host memory against its peers.", argc, argv,
      {{"--deepspeed", &deepspeed, "library that optimizer.py builds"},
       {"--elements", &elements, "parameters"},
       {"--repetitions", &repetitions},
       {"--smoke", &smoke, "small and short"}});
  if (end) return *end;
  if (smoke) elements = 100'000, repetitions = 1;
  longhaul::benchmark::Run(elements, repetitions, deepspeed);
}
