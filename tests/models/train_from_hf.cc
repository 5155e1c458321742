// Trains a Hugging Face model on given tokens, on ranks that are threads of this process, and
// writes it as one again: what training_test.py compares with PyTorch.
//   train_from_hf MODEL --tokens FILE --batch N --context N --steps N --preset P --ranks N
//                 --out DIR [--eos TOKEN] [--mask FILE] [--accumulation N]
// Prints the loss of each step, in nats a token. Tokens: int64, steps * batch * (context + 1).
// Mask: int64, steps * batch * context.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>
#include <numeric>
#include <thread>

#include "ATen/Parallel.h"
#include "CLI/CLI.hpp"
#include "common/base/check.h"
#include "common/hf/hf_export.h"
#include "common/hf/hf_parameters.h"
#include "common/io/posix_filesystem.h"
#include "tests/testing/thread_communicator.h"
#include "tests/testing/token_steps.h"
#include "worker/engine/engine.h"
#include "worker/model/transformer_lm.h"

namespace longhaul {
namespace {

struct Arguments {
  std::string model, tokens, mask, preset = "ddp", out;
  int64_t batch = 1, context = 1;
  int steps = 1, ranks = 1, accumulation = 1;
  double lr = 1e-3;
  bool autograd = false;
  int64_t eos = -1;  // Behind each document, to which attention keeps. -1: it is whole.
};

class Gathered : public InitialParameters {
 public:
  absl::Status Read(int unit, int64_t offset, absl::Span<float> out) const override {
    std::copy_n(units[unit].begin() + offset, out.size(), out.begin());
    return absl::OkStatus();
  }
  std::vector<std::vector<float>> units;
};

template <typename Value>
Value Must(absl::StatusOr<Value> value) {
  if (!value.ok()) {
    std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
    std::exit(1);
  }
  return *std::move(value);
}
void Must(const absl::Status& status) {
  if (!status.ok()) Must(absl::StatusOr<int>(status));
}

std::vector<int64_t> ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  std::vector<int64_t> tokens(bytes.size() / 8);
  std::memcpy(tokens.data(), bytes.data(), 8 * tokens.size());
  return tokens;
}

// Of the tokens that a model reads of each example.
std::vector<int64_t> StartsOf(absl::Span<const int64_t> tokens, int64_t context, int64_t eos) {
  if (eos < 0) return {};
  std::vector<int64_t> starts;
  for (size_t row = 0; row < tokens.size(); row += context + 1) {
    starts.push_back(0);
    for (int64_t t = 1; t < context; ++t)
      starts.push_back(tokens[row + t - 1] == eos ? t : starts.back());
  }
  return starts;
}

void TrainRank(const Arguments& arguments, int rank, Communicator* communicator,
               const TransformerShape& shape, const std::vector<int64_t>& tokens,
               const std::vector<int64_t>& mask, std::mutex& mutex, Gathered& gathered) {
  at::set_num_threads(1);
  std::unique_ptr<TransformerLm> model = Must(TransformerLm::Create(shape, at::kCPU));
  const std::shared_ptr<const InitialParameters> initial =
      Must(OpenHfParameters(arguments.model, model->layout()));
  const auto engine = Must(Engine::Create(
      {.plan = {.accumulation = arguments.accumulation,
                .optimizer =
                    AdamWOptions{.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .weight_decay = 0.1},
                .clip_norm = 1,
                .partition = Must(PartitionPreset(arguments.preset)),
                .blocks = arguments.autograd ? Blocks::kAutograd : Blocks::kFused},
       .site = {.link = {.communicator = communicator}},
       .model = std::move(model),
       .initial = initial}));
  const int64_t width = arguments.context + 1, first = arguments.batch * rank / arguments.ranks,
                count = arguments.batch * (rank + 1) / arguments.ranks - first;
  for (int step = 0; step < arguments.steps; ++step) {
    const auto share = absl::MakeConstSpan(tokens).subspan((step * arguments.batch + first) * width,
                                                           count * width);
    const std::vector<int64_t> starts = StartsOf(share, arguments.context, arguments.eos);
    TokenBatch batch{count, arguments.context, share, starts};
    int64_t targets = arguments.batch * arguments.context;
    if (!mask.empty()) {
      const auto pool = absl::MakeConstSpan(mask).subspan(step * targets, targets);
      batch.loss_mask = pool.subspan(first * arguments.context, count * arguments.context);
      targets = std::accumulate(pool.begin(), pool.end(), int64_t{0});
    }
    const StepResult result = Must(Step(*engine, batch, targets, arguments.lr));
    if (rank == 0) std::printf("%.8f\n", result.loss_sum / static_cast<double>(targets));
  }
  const std::lock_guard lock(mutex);
  gathered.units.resize(engine->layout().units.size());
  for (int unit = 0; unit < static_cast<int>(gathered.units.size()); ++unit) {
    gathered.units[unit].resize(engine->layout().units[unit].elements);
    const ElementRange& owned = engine->plan().owned(unit);
    Must(engine->Read(unit, owned.first,
                      absl::MakeSpan(gathered.units[unit]).subspan(owned.first, owned.count)));
  }
}

void Run(const Arguments& arguments) {
  HfConfig config = Must(ReadHfConfig(arguments.model));
  config.shape.context = arguments.context;
  const std::vector<int64_t> tokens = ReadAll(arguments.tokens);
  LH_CHECK(static_cast<int64_t>(tokens.size()) ==
               arguments.steps * arguments.batch * (arguments.context + 1),
           "the file has the tokens of all steps");
  const std::vector<int64_t> mask =
      arguments.mask.empty() ? std::vector<int64_t>() : ReadAll(arguments.mask);
  LH_CHECK(mask.empty() || static_cast<int64_t>(mask.size()) ==
                               arguments.steps * arguments.batch * arguments.context,
           "the file has the mask of all steps");
  Gathered gathered;
  std::mutex mutex;
  auto communicators = MakeThreadCommunicators(arguments.ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < arguments.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      TrainRank(arguments, rank, arguments.ranks == 1 ? nullptr : communicators[rank].get(),
                config.shape, tokens, mask, mutex, gathered);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto fs = MakePosixFileSystem();
  Must(ExportHf(*fs, Must(LayOutTransformer(config.shape)), gathered,
                {.config = config, .type = ElementType::kF32, .file_bytes_max = 30'000},
                arguments.out));
}

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) {
  longhaul::Arguments arguments;
  CLI::App app{"Trains a Hugging Face model on given tokens."};
  app.add_option("MODEL", arguments.model)->required();
  app.add_option("--tokens", arguments.tokens)->required();
  app.add_option("--batch", arguments.batch)->required();
  app.add_option("--context", arguments.context)->required();
  app.add_option("--steps", arguments.steps)->required();
  app.add_option("--preset", arguments.preset);
  app.add_option("--ranks", arguments.ranks);
  app.add_option("--lr", arguments.lr);
  app.add_flag("--autograd", arguments.autograd);
  app.add_option("--eos", arguments.eos);
  app.add_option("--mask", arguments.mask);
  app.add_option("--accumulation", arguments.accumulation);
  app.add_option("--out", arguments.out)->required();
  CLI11_PARSE(app, argc, argv);
  longhaul::Run(arguments);
  return 0;
}
