// How much of a device's arithmetic training uses: whole steps of TorchReplica in bf16, data and
// update included, on one CUDA device.
//
//   mfu_benchmark [--peak-tflops 989] [--steps 20] [--smoke]
//
// Prints three rows for each model size, the second one with CUDA graphs (train.cuda_graphs), the
// third one with torch's kernels alone (blocks AUTOGRAD): floating-point operations of the model
// per second (6 for each parameter of a matrix and token, and 6 L T d a token for causal attention;
// recomputation does not count) against the device's peak, which is the reference: 989 TFLOP/s are
// those of an H100 or H200 (SXM) in dense bf16. Without a CUDA device: no rows. --smoke: a tiny
// model on the CPU, to show that it runs.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/benchmark/harness/cheap_parameters.h"
#include "tests/benchmark/harness/flags.h"
#include "tests/benchmark/harness/row.h"
#include "tests/testing/language_run.h"
#include "worker/trainer/torch_replica.h"

namespace longhaul::benchmark {
namespace {

struct Case {
  const char* name;
  TransformerShape shape;
  int64_t batch;
  // Its kernels are long enough for the target.
  bool large = true;
};

const Case kCases[] = {
    {"30m",
     {.layers = 12, .dim = 384, .heads = 6, .kv_heads = 6, .ff_dim = 1536, .context = 512},
     4,
     /*large=*/false},
    {"350m",
     {.layers = 24, .dim = 1024, .heads = 16, .kv_heads = 16, .ff_dim = 2816, .context = 2048},
     8},
    {"1b",
     {.layers = 22, .dim = 2048, .heads = 32, .kv_heads = 8, .ff_dim = 5632, .context = 2048},
     4},
};
const Case kTiny = {
    "tiny", {.layers = 2, .dim = 32, .heads = 2, .kv_heads = 2, .ff_dim = 64, .context = 32}, 2};

// Of forward and backward.
double OperationsOfAToken(const ModelLayout& layout, const TransformerShape& shape) {
  double matrices = 0;
  for (const UnitLayout& unit : layout.units) {
    for (const TensorLayout& tensor : unit.tensors)
      matrices += tensor.shape.size() > 1 ? static_cast<double>(tensor.elements) : 0;
  }
  // The embedding is looked up, not multiplied.
  matrices -= static_cast<double>(shape.vocab * shape.dim);
  return 6 * matrices + 6.0 * static_cast<double>(shape.layers * shape.context * shape.dim);
}

struct Variant {
  const char* suffix;
  Blocks blocks = Blocks::kAuto;
  bool cuda_graphs = false;
};
constexpr Variant kVariants[] = {
    {""}, {"_graphs", Blocks::kAuto, true}, {"_torch", Blocks::kAutograd}};

absl::Status Measure(Case one, const Variant& variant, const std::string& text, DeviceKind device,
                     int steps, double peak_tflops) {
  one.shape.vocab = 256;
  const absl::StatusOr<ModelLayout> layout = LayOutTransformer(one.shape);
  if (!layout.ok()) return layout.status();
  auto replica =
      CreateReplica({.plan = {.batch = one.batch,
                              .learning_rate = {.peak = 1e-4, .steps = 1000, .warmup_steps = 100},
                              .device = device,
                              .precision = device == DeviceKind::kCuda ? ComputePrecision::kBfloat16
                                                                       : ComputePrecision::kFloat32,
                              .blocks = variant.blocks,
                              .cuda_graphs = variant.cuda_graphs},
                     .language = {.shape = one.shape, .sources = {{.source = {.path = text}}}},
                     .initial = std::make_shared<CheapParameters>(*layout)});
  if (!replica.ok()) return replica.status();
  std::vector<double> seconds;
  for (int step = 1; step <= 3 + steps; ++step) {
    const auto stats = (*replica)->Step(step);
    if (!stats.ok()) return stats.status();
    if (step > 3) seconds.push_back(stats->compute_seconds);
  }
  const double tokens = static_cast<double>(one.batch * one.shape.context) / Median(seconds);
  const double tflops = tokens * OperationsOfAToken((*replica)->layout(), one.shape) / 1e12;
  const bool has_target = one.large && variant.suffix[0] == '\0';
  Print({.name = absl::StrCat("mfu_", one.name, variant.suffix),
         .ours = tflops,
         .reference = peak_tflops,
         .ratio = tflops / peak_tflops,
         .target = has_target ? std::optional(0.4) : std::nullopt,
         .unit = "TFLOP/s",
         .note = absl::StrCat(device == DeviceKind::kCuda ? "bf16, " : "fp32, ", tokens,
                              " tokens/s, batch ", one.batch, " x ", one.shape.context)});
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  double peak_tflops = 989;
  int steps = 20;
  bool smoke = false;
  const auto end = ReadFlags("How much of a device's arithmetic training uses.", argc, argv,
                             {{"--peak-tflops", &peak_tflops},
                              {.name = "--steps", .value = &steps, .most = 10000},
                              {"--smoke", &smoke}});
  if (end) return *end;
  const std::string text = std::filesystem::temp_directory_path() / "longhaul_mfu_benchmark.txt";
  {
    std::ofstream file(text);
    for (int line = 0; line < 20000; ++line) file << line << " bottles of beer on the wall\n";
  }
  absl::Status status;
  if (smoke) {
    status = Measure(kTiny, kVariants[0], text, DeviceKind::kCpu, 2, peak_tflops);
  } else {
    for (const Case& one : kCases) {
      for (const Variant& variant : kVariants) {
        if (status.ok())
          status = Measure(one, variant, text, DeviceKind::kCuda, steps, peak_tflops);
      }
    }
  }
  std::filesystem::remove(text);
  if (status.ok()) return 0;
  std::cerr << "mfu_benchmark: " << status.message() << std::endl;
  return absl::IsFailedPrecondition(status) ? 0 : 1;  // No CUDA device.
}

}  // namespace
}  // namespace longhaul::benchmark

int main(int argc, char** argv) { return longhaul::benchmark::Main(argc, argv); }
