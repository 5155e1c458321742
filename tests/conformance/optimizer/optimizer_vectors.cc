// optimizer_vectors: runs the product's own optimizers on given numbers.
//
// Each line of standard input has the arguments of one run, since torch takes longer to load than a
// run takes. A run reads little-endian float32: R x C initial parameters, and N gradients of that
// shape, step after step (K x N for onebit_adam, rank by rank within a step). It writes the
// parameters after every step; in local steps of onebit_adam those of the first rank. The answer
// ends with a line `status S`. S is 0: ok, 1: the output could not be written, 4: bad arguments or
// input. Lines before it say what was wrong.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "ATen/Parallel.h"
#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "tests/conformance/optimizer/onebit_vectors.h"
#include "worker/engine/offload_device.h"
#include "worker/engine/optimizer_factory.h"
#include "worker/movement/emulated_movement.h"
#include "worker/offload/interleaved_adamw.h"

namespace longhaul {
namespace {

static_assert(std::endian::native == std::endian::little);

struct Arguments {
  std::string optimizer, placement = "host", scaling = "spectral", iterations = "bfloat16",
                         moments = "float32";
  std::string initial, gradients, out;
  int64_t rows = 0, columns = 0, steps = 0;
  double rate = 0, weight_decay = 0, beta1 = 0.9, beta2 = 0.99, eps = 1e-8, momentum = 0.9;
  // Options of onebit_adam and of the interleaved placement.
  int64_t freeze_step = 0, ranks = 1, var_update_scaler = 0, var_freeze_step = 0;
  int64_t local_step_scaler = 0, local_step_clipper = 16, settle_every = 0;
  // 0: not given.
  int stride = 0;
  double static_share = 0;
};

// Reads a file of `count` floats. INVALID_ARGUMENT: it has another size, or a float is not finite.
absl::StatusOr<std::vector<float>> ReadFloats(const std::string& path, const char* what,
                                              int64_t count) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return absl::InvalidArgumentError(absl::StrCat(what, ": cannot read ", path));
  const auto bytes = static_cast<int64_t>(file.tellg());
  if (bytes != 4 * count) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: found %d bytes in %s, expected %d (%d float32)", what, bytes, path, 4 * count, count));
  }
  std::vector<float> values(count);
  file.seekg(0);
  file.read(reinterpret_cast<char*>(values.data()), bytes);
  if (!file) return absl::InvalidArgumentError(absl::StrCat(what, ": cannot read ", path));
  for (int64_t i = 0; i < count; ++i) {
    if (std::isfinite(values[i])) continue;
    return absl::InvalidArgumentError(absl::StrFormat("%s: value %d is not finite", what, i));
  }
  return values;
}

// CLI11's own ranges accept NaN.
absl::Status CheckNumbers(const Arguments& a) {
  for (const auto& [flag, value] : {std::pair{"--lr", a.rate},
                                    {"--weight-decay", a.weight_decay},
                                    {"--beta1", a.beta1},
                                    {"--beta2", a.beta2},
                                    {"--eps", a.eps},
                                    {"--momentum", a.momentum},
                                    {"--static-share", a.static_share}}) {
    if (!std::isfinite(value))
      return absl::InvalidArgumentError(absl::StrFormat("%s: found %g", flag, value));
  }
  return absl::OkStatus();
}

absl::StatusOr<OptimizerOptions> OptionsOf(const Arguments& a) {
  LH_RETURN_IF_ERROR(CheckNumbers(a));
  if (a.optimizer != "onebit_adam" &&
      (a.freeze_step != 0 || a.ranks != 1 || a.var_update_scaler != 0 || a.var_freeze_step != 0 ||
       a.local_step_scaler != 0 || a.settle_every != 0)) {
    return absl::InvalidArgumentError(
        "--freeze-step, --ranks, --var-update-scaler, --var-freeze-step, --local-step-scaler, "
        "--settle-every: belong to --optimizer onebit_adam");
  }
  const bool interleaved = a.placement == "interleaved";
  if (interleaved && a.optimizer == "onebit_adam")
    return absl::InvalidArgumentError("--placement interleaved: not for --optimizer onebit_adam");
  if (!interleaved && (a.stride != 0 || a.static_share != 0)) {
    return absl::InvalidArgumentError(
        "--stride, --static-share: belong to --placement interleaved");
  }
  const AdamWOptions adamw{
      .beta1 = a.beta1,
      .beta2 = a.beta2,
      .eps = a.eps,
      .weight_decay = a.weight_decay,
      .moments = a.moments == "bfloat16" ? MomentPrecision::kBfloat16 : MomentPrecision::kFloat32};
  if (a.optimizer == "adamw") return adamw;
  if (a.optimizer == "onebit_adam") {
    if (adamw.moments == MomentPrecision::kBfloat16)
      return absl::InvalidArgumentError("--moments bfloat16: onebit_adam keeps float32 moments");
    return OneBitAdamOptions{.adamw = adamw,
                             .freeze_step = a.freeze_step,
                             .var_update_scaler = a.var_update_scaler,
                             .var_freeze_step = a.var_freeze_step,
                             .local_step_scaler = a.local_step_scaler,
                             .local_step_clipper = a.local_step_clipper};
  }
  return MuonOptions{
      .momentum = a.momentum,
      .weight_decay = a.weight_decay,
      .scaling = a.scaling == "match_adamw" ? MuonScaling::kMatchAdamW : MuonScaling::kSpectral,
      .iterations = a.iterations == "float32" ? MuonPrecision::kFloat32 : MuonPrecision::kBfloat16,
      .adamw = adamw};
}

struct Placed {
  // One after another.
  std::vector<SubgroupShape> shapes;
  std::unique_ptr<Optimizer> optimizer;
};

// The whole matrix is one subgroup in host memory; or it is about kInterleavedSubgroups subgroups
// of whole rows (one for Muon), updated on the host and on the emulated device.
absl::StatusOr<Placed> MakePlaced(const Arguments& a, const OptimizerOptions& options,
                                  absl::Span<float> parameters, Movement& movement,
                                  ThreadTeam& team) {
  constexpr int64_t kInterleavedSubgroups = 16;
  Placed placed;
  if (a.placement == "host") {
    SubgroupShape shape{.elements = a.rows * a.columns, .decay = true};
    if (CutRuleOf(options) == CutRule::kMatrices) shape.rows = a.rows, shape.columns = a.columns;
    placed.shapes = {shape};
    placed.optimizer = MakeOptimizer(options, placed.shapes, at::kCPU, team);
    return placed;
  }
  const bool whole = CutRuleOf(options) == CutRule::kMatrices;
  const int64_t rows_of_each =
      whole ? a.rows : (a.rows + kInterleavedSubgroups - 1) / kInterleavedSubgroups;
  std::vector<InterleavedAdamW::Subgroup> subgroups;
  for (int64_t row = 0; row < a.rows; row += rows_of_each) {
    const int64_t elements = std::min(rows_of_each, a.rows - row) * a.columns;
    placed.shapes.push_back({.elements = elements, .decay = true});
    if (whole) placed.shapes.back().rows = a.rows, placed.shapes.back().columns = a.columns;
    subgroups.push_back({placed.shapes.back(), parameters.subspan(row * a.columns, elements)});
  }
  const int stride = a.stride == 0 ? 2 : a.stride;
  LH_ASSIGN_OR_RETURN(const OffloadDevice device, OpenOffloadDevice(at::kCPU, {}, options));
  InterleavedAdamW::Options update = InterleavedOptionsOf(options);
  update.schedule = {.stride = stride, .device_share = a.static_share};
  LH_ASSIGN_OR_RETURN(placed.optimizer,
                      InterleavedAdamW::Create(update, subgroups, movement, device.update, &team));
  return placed;
}

// The parameters after each step, one after another.
absl::StatusOr<std::vector<float>> Run(const Arguments& a) {
  LH_ASSIGN_OR_RETURN(const OptimizerOptions options, OptionsOf(a));
  constexpr int64_t kElementsMax = int64_t{1} << 31;
  if (a.rows > kElementsMax / a.columns || a.steps > kElementsMax / (a.rows * a.columns * a.ranks))
    return absl::InvalidArgumentError(
        "--rows, --columns, --steps, --ranks: more than 2^31 numbers");
  const int64_t elements = a.rows * a.columns;
  LH_ASSIGN_OR_RETURN(std::vector<float> parameters, ReadFloats(a.initial, "--initial", elements));
  LH_ASSIGN_OR_RETURN(const std::vector<float> gradients,
                      ReadFloats(a.gradients, "--gradients", a.steps * a.ranks * elements));
  if (const auto* onebit = std::get_if<OneBitAdamOptions>(&options)) {
    return RunOneBitVectors({.options = *onebit,
                             .rate = a.rate,
                             .ranks = static_cast<int>(a.ranks),
                             .rows = a.rows,
                             .columns = a.columns,
                             .steps = a.steps,
                             .settle_every = a.settle_every,
                             .initial = parameters,
                             .gradients = gradients});
  }
  at::set_num_threads(1);
  ThreadTeam team;
  // Its queues are as late and out of order as possible.
  EmulatedMovement movement({});
  LH_ASSIGN_OR_RETURN(const Placed placed,
                      MakePlaced(a, options, absl::MakeSpan(parameters), movement, team));
  std::vector<float> out;
  for (int64_t step = 0; step < a.steps; ++step) {
    placed.optimizer->Begin({.learning_rate = a.rate});
    int64_t first = 0;
    for (int i = 0; i < static_cast<int>(placed.shapes.size()); ++i) {
      const int64_t count = placed.shapes[i].elements;
      placed.optimizer->Submit(
          {.subgroup = i,
           .parameters = absl::MakeSpan(parameters).subspan(first, count),
           .gradients = absl::MakeConstSpan(gradients).subspan(step * elements + first, count)});
      first += count;
    }
    LH_RETURN_IF_ERROR(placed.optimizer->Finish());
    out.insert(out.end(), parameters.begin(), parameters.end());
  }
  return out;
}

void AddOptions(CLI::App& app, Arguments& a) {
  const CLI::Range below_one(0.0, 0.9999999);
  app.add_option("--optimizer", a.optimizer, "adamw, muon, onebit_adam")
      ->required()
      ->check(CLI::IsMember({"adamw", "muon", "onebit_adam"}));
  app.add_option("--rows", a.rows, "R")->required()->check(CLI::PositiveNumber);
  app.add_option("--columns", a.columns, "C")->required()->check(CLI::PositiveNumber);
  app.add_option("--steps", a.steps, "N")->required()->check(CLI::PositiveNumber);
  app.add_option("--lr", a.rate, "learning rate")->required()->check(CLI::NonNegativeNumber);
  app.add_option("--weight-decay", a.weight_decay)->check(CLI::Range(0.0, 1.0));
  app.add_option("--beta1", a.beta1, "adamw, onebit_adam")->check(below_one);
  app.add_option("--beta2", a.beta2, "adamw, onebit_adam")->check(below_one);
  app.add_option("--eps", a.eps, "adamw, onebit_adam")->check(CLI::PositiveNumber);
  app.add_option("--moments", a.moments, "adamw")->check(CLI::IsMember({"float32", "bfloat16"}));
  app.add_option("--momentum", a.momentum, "muon")->check(below_one);
  app.add_option("--scaling", a.scaling, "muon")->check(CLI::IsMember({"spectral", "match_adamw"}));
  app.add_option("--iterations", a.iterations, "muon")
      ->check(CLI::IsMember({"float32", "bfloat16"}));
  app.add_option("--freeze-step", a.freeze_step,
                 "onebit_adam: updates before the variance is frozen; 0: until it stands still")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--var-update-scaler", a.var_update_scaler,
                 "onebit_adam: 0/1 Adam's variance policy; 0: frozen for good")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--var-freeze-step", a.var_freeze_step, "onebit_adam: its end; 0: none")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--local-step-scaler", a.local_step_scaler,
                 "onebit_adam: 0/1 Adam's local steps; 0: none")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--local-step-clipper", a.local_step_clipper, "onebit_adam: default 16")
      ->check(CLI::Range(2, 1 << 16));
  app.add_option("--settle-every", a.settle_every,
                 "onebit_adam: ranks synchronise after every so many steps, too; 0: not")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--ranks", a.ranks, "onebit_adam: K")->check(CLI::Range(1, 64));
  app.add_option("--placement", a.placement, "host, interleaved")
      ->check(CLI::IsMember({"host", "interleaved"}));
  app.add_option("--stride", a.stride, "interleaved; default 2")->check(CLI::PositiveNumber);
  app.add_option("--static-share", a.static_share, "interleaved")->check(CLI::Range(0.0, 1.0));
  app.add_option("--initial", a.initial, "file")->required();
  app.add_option("--gradients", a.gradients, "file")->required();
  app.add_option("--out", a.out, "file")->required();
}

// Returns the status of the answer.
int RunLine(const std::string& line) {
  Arguments arguments;
  CLI::App app{"Parameters after every step of one of the product's optimizers."};
  AddOptions(app, arguments);
  try {
    app.parse(line);
  } catch (const CLI::ParseError& error) {
    return app.exit(error, std::cout, std::cout) == 0 ? 0 : 4;
  }
  const auto result = Run(arguments);
  if (!result.ok()) {
    std::cout << result.status().message() << "\n";
    return absl::IsInvalidArgument(result.status()) ? 4 : 1;
  }
  std::ofstream out(arguments.out, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(result->data()),
            static_cast<std::streamsize>(result->size() * sizeof(float)));
  out.close();
  if (out.fail()) {
    std::cout << "--out: cannot write " << arguments.out << "\n";
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace longhaul

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    const int status = longhaul::RunLine(line);
    std::cout << "status " << status << std::endl;
  }
  return 0;
}
