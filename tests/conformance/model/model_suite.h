// What every Model promises: units that compose, a loss that sums over the batch, and gradients
// that are the slope of the loss. An implementation instantiates ModelSuite with a maker. The
// model's vocabulary has at least five tokens.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include "ATen/Parallel.h"
#include "ATen/core/grad_mode.h"
#include "ATen/ops/cat.h"
#include "ATen/ops/randint.h"
#include "tests/testing/single_rank.h"
#include "worker/model/initialization.h"
#include "worker/model/language_batch.h"
#include "worker/model/model.h"

namespace longhaul {

struct ModelMaker {
  std::function<std::unique_ptr<Model>()> make;
  // Tensors of other units that its units use.
  int borrowed = 0;
};

class ModelSuite : public testing::TestWithParam<ModelMaker> {
 protected:
  ModelSuite() { at::set_num_threads(1); }

  static void Fill(SingleRank& rank) {
    for (int unit = 0; unit < static_cast<int>(rank.model.layout().units.size()); ++unit) {
      std::vector<float> values(rank.model.layout().units[unit].elements);
      InitializeParameters(rank.model, 1, unit, 0, absl::MakeSpan(values));
      // Away from symmetric points, so that every slope has an effect.
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = 5 * values[i] + 0.1f * std::sin(static_cast<float>(i));
      rank.Write(unit, values);
    }
  }
  static LanguageBatch MakeBatch(int64_t sequences) {
    const at::Tensor tokens = at::randint(5, {sequences, 7}, at::kLong);
    return {tokens.narrow(1, 0, 6), tokens.narrow(1, 1, 6)};
  }
};

TEST_P(ModelSuite, TensorsFillTheirUnits) {
  const auto model = GetParam().make();
  for (const UnitLayout& unit : model->layout().units) {
    int64_t next = 0;
    for (const TensorLayout& tensor : unit.tensors) {
      EXPECT_EQ(tensor.offset, next) << tensor.name;
      next += tensor.elements;
    }
    EXPECT_EQ(next, unit.elements) << unit.name;
  }
}

TEST_P(ModelSuite, BorrowsFromEarlierUnitsOnly) {
  const auto model = GetParam().make();
  int borrowed = 0;
  for (int unit = 0; unit < static_cast<int>(model->layout().units.size()); ++unit) {
    for (const TensorRef& ref : model->Borrowed(unit)) {
      EXPECT_GE(ref.unit, 0);
      EXPECT_LT(ref.unit, unit);
      ++borrowed;
    }
  }
  EXPECT_EQ(borrowed, GetParam().borrowed);
}

TEST_P(ModelSuite, LossSumsOverTheBatch) {
  const auto model = GetParam().make();
  SingleRank rank(*model, at::kFloat);
  Fill(rank);
  const LanguageBatch one = MakeBatch(1), two = MakeBatch(2);
  const LanguageBatch all = {at::cat({one.inputs_BT, two.inputs_BT}),
                             at::cat({one.targets_BT, two.targets_BT})};
  const double expected = rank.ForwardOnly(one) + rank.ForwardOnly(two);
  EXPECT_NEAR(rank.ForwardOnly(all), expected, 1e-5 * expected);
}

// A small move along the gradient changes the loss by the squared norm of the gradient times the
// length of the move.
TEST_P(ModelSuite, GradientIsTheSlopeOfTheLoss) {
  const auto model = GetParam().make();
  SingleRank rank(*model, at::kFloat);
  Fill(rank);
  FlatGradients gradients = rank.MakeGradients();
  const LanguageBatch batch = MakeBatch(2);
  for (int unit = 0; unit < static_cast<int>(model->layout().units.size()); ++unit) {
    ASSERT_TRUE(rank.ForwardBackward(batch, {}, gradients).ok());
    const at::Tensor slope = gradients.unit(unit).clone();
    const double squared = slope.dot(slope).item<double>();
    ASSERT_GT(squared, 0) << unit;
    const double amount = 1e-2 / squared;
    const auto loss_at = [&](double shift) {
      const at::NoGradGuard no_grad;
      rank.weights.Master(unit, {0, slope.numel()}).add_(slope, shift);
      EXPECT_TRUE(rank.weights.Refresh(unit).ok());
      const double loss = rank.ForwardOnly(batch);
      rank.weights.Master(unit, {0, slope.numel()}).add_(slope, -shift);
      EXPECT_TRUE(rank.weights.Refresh(unit).ok());
      return loss;
    };
    EXPECT_NEAR(loss_at(amount) - loss_at(-amount), 2e-2, 1e-3) << unit;
  }
}

}  // namespace longhaul
