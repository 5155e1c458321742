// Tokens per second of a rank: whole steps of TorchReplica, data and update included. Prints one
// row of JSON: the median over the measured steps, the largest resident memory, and the page faults
// of a measured step. eager_reference.py does the same in PyTorch, eager.py compares.
//   engine_benchmark TEXT [--steps N] [--threads N] [--layers N] [--dim N] [--heads N] [--ff N]
//                    [--context N] [--batch N] [--vocab N] [--blocks fused|autograd]
//                    [--precision fp32|bf16] [--activations keep|recompute]
//                    [--documents joined|separate] [--instructions ssse3|avx2|avx512]
// TEXT: a file, or a folder with a document in each file.
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "tests/benchmark/harness/instructions.h"
#include "tests/testing/language_run.h"
#include "worker/trainer/torch_replica.h"

namespace longhaul {
namespace {

using Flags = std::map<std::string, std::string>;

LanguageRun OptionsOf(const std::string& text, const Flags& flags) {
  const auto number = [&](const char* name, int64_t otherwise) {
    const auto found = flags.find(name);
    return found == flags.end() ? otherwise : std::atoll(found->second.c_str());
  };
  const auto is = [&](const char* name, const char* value) {
    const auto found = flags.find(name);
    return found != flags.end() && found->second == value;
  };
  const int64_t heads = number("--heads", 4);
  return {.plan = {.batch = number("--batch", 4),
                   .learning_rate = {.peak = 1e-3, .steps = 1000, .warmup_steps = 100},
                   .optimizer = AdamWOptions{.weight_decay = 0.01},
                   .precision = is("--precision", "bf16") ? ComputePrecision::kBfloat16
                                                          : ComputePrecision::kFloat32,
                   .recompute = is("--activations", "recompute"),
                   .blocks = is("--blocks", "autograd") ? Blocks::kAutograd : Blocks::kAuto},
          .site = {.threads = static_cast<int>(number("--threads", 1))},
          .language = {.shape = {.layers = number("--layers", 4),
                                 .dim = number("--dim", 96),
                                 .heads = heads,
                                 .kv_heads = heads,
                                 .ff_dim = number("--ff", 256),
                                 .context = number("--context", 128),
                                 .vocab = number("--vocab", 256)},
                       .sources = {{.source = {.path = text}}},
                       .separate_documents = is("--documents", "separate")}};
}

rusage Usage() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage;
}

int Run(const std::string& text, const Flags& flags) {
  const auto given = flags.find("--steps");
  const int steps = given == flags.end() ? 100 : std::atoi(given->second.c_str());
  const int warmup = std::min(10, steps);
  const auto instructions = flags.find("--instructions");
  if (instructions != flags.end() && !benchmark::UseInstructions(instructions->second)) {
    std::fprintf(stderr, "this CPU does not have %s\n", instructions->second.c_str());
    return 1;
  }
  const LanguageRun options = OptionsOf(text, flags);
  const auto replica = CreateReplica(options);
  if (!replica.ok()) {
    std::fprintf(stderr, "%s\n", replica.status().ToString().c_str());
    return 1;
  }
  std::vector<double> seconds;
  rusage before = Usage();
  for (int step = 1; step <= warmup + steps; ++step) {
    if (step == warmup + 1) before = Usage();
    const auto stats = (*replica)->Step(step);
    if (!stats.ok()) {
      std::fprintf(stderr, "%s\n", stats.status().ToString().c_str());
      return 1;
    }
    if (step > warmup) seconds.push_back(stats->compute_seconds);
  }
  const rusage after = Usage();
  std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
  std::printf("{\"tokens_per_second\": %.1f, \"peak_mb\": %.1f, \"faults_per_step\": %.1f}\n",
              static_cast<double>(options.plan.batch * options.language.shape.context) /
                  seconds[seconds.size() / 2],
              static_cast<double>(after.ru_maxrss) / 1024,
              static_cast<double>(after.ru_minflt - before.ru_minflt) / steps);
  return 0;
}

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) {
  if (argc < 2 || argc % 2 != 0) {
    std::fprintf(stderr, "usage: %s TEXT [--NAME VALUE]...\n", argv[0]);
    return 2;
  }
  longhaul::Flags flags;
  for (int i = 2; i + 1 < argc; i += 2) flags[argv[i]] = argv[i + 1];
  return longhaul::Run(argv[1], flags);
}
