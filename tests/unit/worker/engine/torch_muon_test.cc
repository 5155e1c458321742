#include "worker/engine/torch_muon.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ATen/Parallel.h"
#include "common/base/random.h"
#include "tests/testing/reference_muon.h"
#include "worker/engine/optimizer_factory.h"
#include "worker/optim/adamw.h"
#include "worker/optim/bfloat16.h"

namespace longhaul {
namespace {

std::vector<float> Noise(Random& random, int64_t size, double scale) {
  std::vector<float> values(size);
  for (float& value : values) value = static_cast<float>(scale * (random.Uniform() - 0.5));
  return values;
}

std::unique_ptr<Optimizer> Make(const MuonOptions& options,
                                absl::Span<const SubgroupShape> subgroups) {
  static ThreadTeam team;
  at::set_num_threads(1);
  return MakeOptimizer(options, subgroups, at::kCPU, team);
}

SubgroupShape Matrix(int64_t rows, int64_t columns) {
  return {.elements = rows * columns, .decay = true, .rows = rows, .columns = columns};
}

double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  return std::sqrt(squares);
}

// Over 50 steps with gradients that differ and go on in one direction, as real ones.
void ExpectAgrees(const MuonOptions& options, int64_t rows, int64_t columns) {
  Random random(static_cast<uint64_t>(rows * columns));
  const auto optimizer = Make(options, {Matrix(rows, columns)});
  ReferenceMuon reference(options, rows, columns);
  const std::vector<float> drift = Noise(random, rows * columns, 0.3);
  std::vector<float> expected = Noise(random, rows * columns, 1);
  std::vector<float> actual = expected;
  for (int step = 1; step <= 50; ++step) {
    std::vector<float> gradients = Noise(random, rows * columns, 1);
    for (size_t i = 0; i < gradients.size(); ++i) gradients[i] += drift[i];
    const double rate = 0.02 / (1 + 0.02 * step);
    const std::vector<float> before = expected, actual_before = actual;
    optimizer->Begin({.learning_rate = rate});
    optimizer->Submit({.parameters = absl::MakeSpan(actual), .gradients = gradients});
    ASSERT_TRUE(optimizer->Finish().ok());
    reference.Update(rate, absl::MakeSpan(expected), gradients);
    if (options.iterations == MuonPrecision::kFloat32) {
      for (size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], 1e-5) << step;
    } else {
      std::vector<float> change = actual, expected_change = expected;
      for (size_t i = 0; i < actual.size(); ++i) {
        change[i] -= actual_before[i];
        expected_change[i] -= before[i];
      }
      ASSERT_LT(Distance(change, expected_change),
                0.03 * Distance(expected_change, std::vector<float>(change.size())))
          << step;
    }
  }
}

TEST(TorchMuonTest, EqualsTheReferenceInFloat32) {
  for (const auto& [rows, columns] : {std::pair(16, 16), {24, 40}, {40, 24}, {1, 7}, {64, 33}}) {
    for (const MuonScaling scaling : {MuonScaling::kSpectral, MuonScaling::kMatchAdamW}) {
      ExpectAgrees({.momentum = 0.95,
                    .weight_decay = 0.1,
                    .scaling = scaling,
                    .iterations = MuonPrecision::kFloat32},
                   rows, columns);
    }
  }
}

TEST(TorchMuonTest, StaysNearTheReferenceInBfloat16) {
  for (const auto& [rows, columns] : {std::pair(16, 16), {64, 64}, {64, 96}, {80, 72}})
    ExpectAgrees({.weight_decay = 0.1}, rows, columns);
}

TEST(TorchMuonTest, UpdatesTheRestByAdamWAtItsOwnRate) {
  const MuonOptions options{.adamw = {.weight_decay = 0.1}, .adamw_rate = 0.25};
  const std::vector<SubgroupShape> shapes = {
      {.elements = 5, .decay = true}, Matrix(4, 6), {.elements = 3}};
  const auto muon = Make(options, shapes);
  AdamW adamw(options.adamw, {shapes[0], shapes[2]});
  Random random(3);
  std::vector<float> first = Noise(random, 5, 1), matrix = Noise(random, 24, 1),
                     last = Noise(random, 3, 1);
  std::vector<float> expected_first = first, expected_last = last;
  for (int step = 1; step <= 3; ++step) {
    const std::vector<float> gradients = Noise(random, 24, 1);
    const auto part = absl::MakeConstSpan(gradients);
    muon->Begin({.learning_rate = 0.04, .gradient_scale = 0.5});
    muon->Submit({0, absl::MakeSpan(first), part.first(5)});
    muon->Submit({1, absl::MakeSpan(matrix), part});
    muon->Submit({2, absl::MakeSpan(last), part.first(3)});
    adamw.Begin({.learning_rate = 0.01, .gradient_scale = 0.5});
    adamw.Submit({0, absl::MakeSpan(expected_first), part.first(5)});
    adamw.Submit({1, absl::MakeSpan(expected_last), part.first(3)});
  }
  EXPECT_EQ(first, expected_first);
  EXPECT_EQ(last, expected_last);
  EXPECT_EQ(muon->updates(), 3);
  EXPECT_EQ(muon->state_bytes(), 4 * 24 + 8 * 8);
  EXPECT_TRUE(muon->Keeps(OptimizerState::kVariance, 0));
  EXPECT_FALSE(muon->Keeps(OptimizerState::kVariance, 1));
}

TEST(TorchMuonTest, StateThatWasReadCanBeWrittenBackAndTheShadowFollows) {
  const auto one = Make({}, {Matrix(8, 4)}), other = Make({}, {Matrix(8, 4)});
  Random random(4);
  const std::vector<float> gradients = Noise(random, 32, 1);
  std::vector<float> parameters = Noise(random, 32, 1), momentum(32);
  one->Begin({.learning_rate = 0.1});
  one->Submit({.parameters = absl::MakeSpan(parameters), .gradients = gradients});
  EXPECT_TRUE(one->ReadState(OptimizerState::kMoment, 0, 0, absl::MakeSpan(momentum)).ok());
  EXPECT_EQ(momentum, gradients);
  EXPECT_TRUE(
      other->WriteState(OptimizerState::kMoment, 0, 0, absl::MakeConstSpan(momentum).first(10))
          .ok());
  EXPECT_TRUE(
      other->WriteState(OptimizerState::kMoment, 0, 10, absl::MakeConstSpan(momentum).subspan(10))
          .ok());
  std::vector<float> again = parameters;
  std::vector<uint16_t> shadow(32);
  for (const auto& [optimizer, values] : {std::pair(&one, &parameters), {&other, &again}}) {
    (*optimizer)->Begin({.learning_rate = 0.1});
    (*optimizer)
        ->Submit({.parameters = absl::MakeSpan(*values),
                  .gradients = gradients,
                  .shadow = absl::MakeSpan(shadow)});
  }
  EXPECT_EQ(parameters, again);
  for (size_t i = 0; i < again.size(); ++i) EXPECT_EQ(shadow[i], ToBfloat16(again[i]));
}

}  // namespace
}  // namespace longhaul
