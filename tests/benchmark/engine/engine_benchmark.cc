// Tokens per second of a rank on one CPU thread: whole steps of TorchReplica, data and update
// included, on the quickstart model. Prints one number: the median over the measured steps.
// eager_reference.py does the same in PyTorch, paired.py compares.
//   engine_benchmark TEXT_FILE [STEPS]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "worker/trainer/torch_replica.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s TEXT_FILE [STEPS]\n", argv[0]);
    return 2;
  }
  const int steps = argc > 2 ? std::atoi(argv[2]) : 100;
  const int warmup = 20;
  const auto replica = longhaul::TorchReplica::Create(
      {.shape = {.layers = 4,
                 .dim = 96,
                 .heads = 4,
                 .kv_heads = 4,
                 .ff_dim = 256,
                 .context = 128,
                 .vocab = 256},
       .batch = 4,
       .learning_rate = {.peak = 4e-3, .steps = 1000, .warmup_steps = 100},
       .adamw = {.weight_decay = 0.01},
       .data_path = argv[1],
       .threads = 1});
  if (!replica.ok()) {
    std::fprintf(stderr, "%s\n", replica.status().ToString().c_str());
    return 1;
  }
  std::vector<double> seconds;
  for (int step = 1; step <= warmup + steps; ++step) {
    const auto stats = (*replica)->Step(step);
    if (!stats.ok()) {
      std::fprintf(stderr, "%s\n", stats.status().ToString().c_str());
      return 1;
    }
    if (step > warmup) seconds.push_back(stats->compute_seconds);
  }
  std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
  std::printf("%.1f\n", 4 * 128 / seconds[seconds.size() / 2]);
}
