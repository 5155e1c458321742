#include "worker/engine/unit_code.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ATen/TensorOperators.h"
#include "ATen/ops/arange.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/equal.h"
#include "ATen/ops/full.h"
#include "ATen/ops/zeros.h"
#include "tests/testing/random_tensor.h"

namespace longhaul {
namespace {

// A vector, two matrices, a vector: 1,000 elements, none of which begins at a block.
UnitLayout CodedUnit() {
  UnitLayout unit{.elements = 1000};
  unit.tensors = {{.shape = {10}, .offset = 0, .elements = 10},
                  {.shape = {30, 20}, .offset = 10, .elements = 600},
                  {.shape = {38, 10}, .offset = 610, .elements = 380},
                  {.shape = {10}, .offset = 990, .elements = 10}};
  return unit;
}
const std::vector<ElementRange> kPieces = {{0, 256}, {256, 256}, {512, 384}, {896, 104}, {1000, 0}};

// The largest value of a block loses up to one step, max / 2^(bits - 1), whose scale has 8 bits of
// mantissa.
double LargestError(const at::Tensor& values, int bits) {
  if (bits == 32) return 0;
  const double largest = values.abs().max().to(at::kDouble).item<double>();
  return bits == 16 ? largest / 256 : 1.01 * largest / (1 << (bits - 1));
}

at::Tensor Coded(const UnitCode& code) { return at::zeros({code.bytes()}, at::kByte); }

UnitValues Blank() { return {.flat = at::full({1000}, -7.0)}; }

double Difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

TEST(UnitCodeTest, WhatIsCodedComesBack) {
  for (const int bits : {4, 6, 8, 16, 32}) {
    const UnitCode code(CodedUnit(), kPieces, bits);
    const UnitValues values{.flat = RandomNormal({1000})};
    const at::Tensor coded = Coded(code);
    CodingLoss loss;
    // Piece after piece, as ranks do.
    for (int piece = 0; piece < 5; ++piece) code.Encode({piece, 1}, values, coded, 0, {}, loss);
    const UnitValues decoded = Blank();
    code.Decode({0, 5}, coded, 0, decoded);
    const double tolerance = LargestError(values.flat, bits);
    EXPECT_LE(Difference(values.flat, decoded.flat), tolerance) << bits;
    EXPECT_EQ(loss.Take().signal_energy > 0, bits < 16);
    // Vectors cross exactly.
    EXPECT_EQ(Difference(values.flat.narrow(0, 0, 10), decoded.flat.narrow(0, 0, 10)), 0);
    EXPECT_EQ(Difference(values.flat.narrow(0, 990, 10), decoded.flat.narrow(0, 990, 10)), 0);
    const UnitCode::Addend addends[] = {{coded, 0, {}}, {.values = decoded}, {coded, 0, {}}};
    code.Reduce({0, 5}, addends, decoded, {}, 0, {}, loss);
    EXPECT_LE(Difference(3 * values.flat, decoded.flat), 3 * tolerance + 1e-5);
  }
}

TEST(UnitCodeTest, CountsElementsAndScales) {
  for (const int bits : {4, 6, 8, 16, 32}) {
    const UnitCode code(CodedUnit(), kPieces, bits);
    int64_t bytes = 0, scales = 0;
    for (int piece = 0; piece < 5; ++piece) {
      EXPECT_EQ(code.PartOf({piece, 1}).offset, bytes);
      EXPECT_EQ(bytes % UnitCode::kAlignment, 0);
      bytes += code.PartOf({piece, 1}).size;
      scales += code.ScaleBytes({piece, 1});
    }
    EXPECT_EQ(bytes, code.bytes());
    // Two of the pieces end within a byte of 6-bit codes.
    EXPECT_EQ(bytes - scales, 20 * 4 + 980 * bits / 8 + (bits == 6 ? 1 : 0)) << bits;
    EXPECT_EQ(code.ScaleBytes({0, 5}), scales);
  }
}

// A code of one piece is the same wherever it lies, and whoever decodes it.
TEST(UnitCodeTest, PiecesStandAlone) {
  const UnitCode code(CodedUnit(), kPieces, 8);
  const UnitValues values{.flat = at::arange(1000.0).sub(500)};
  const at::Tensor whole = Coded(code);
  const Part part = code.PartOf({1, 2});
  const at::Tensor alone = at::zeros({part.size}, at::kByte);
  CodingLoss loss;
  code.Encode({0, 5}, values, whole, 0, {}, loss);
  // Values that begin where the pieces do.
  const UnitValues slice{.flat = values.flat.narrow(0, 256, 640), .first = 256};
  code.Encode({1, 2}, slice, alone, 1, {}, loss);
  EXPECT_TRUE(at::equal(alone, whole.narrow(0, part.offset, part.size)));
  const UnitValues decoded{.flat = at::zeros({640}), .first = 256};
  code.Decode({1, 2}, alone, 1, decoded);
  EXPECT_LE(Difference(slice.flat, decoded.flat), 4);
}

TEST(UnitCodeTest, VectorsMayLieApart) {
  for (const int bits : {8, 16}) {
    const UnitCode code(CodedUnit(), kPieces, bits);
    const UnitValues values{.flat = RandomNormal({1000}).to(at::kBFloat16),
                            .vectors = at::arange(20.0).add(0.001)};
    const at::Tensor coded = Coded(code);
    CodingLoss loss;
    code.Encode({0, 5}, values, coded, 0, {}, loss);
    const UnitValues decoded{.flat = at::zeros({1000}, at::kBFloat16), .vectors = at::zeros({20})};
    code.Decode({0, 5}, coded, 0, decoded);
    EXPECT_TRUE(at::equal(decoded.vectors, values.vectors));
    // Also rounded to bf16.
    const double rounding = LargestError(values.flat, 16);
    EXPECT_LE(Difference(values.flat.narrow(0, 10, 980).to(at::kFloat),
                         decoded.flat.narrow(0, 10, 980).to(at::kFloat)),
              bits == 16 ? 0 : LargestError(values.flat, bits) + rounding);
  }
}

// What was sent and what is owed are together what there was.
TEST(UnitCodeTest, FeedbackHoldsWhatCodingLost) {
  const UnitCode code(CodedUnit(), kPieces, 4);
  const UnitValues values{.flat = RandomNormal({1000})};
  const at::Tensor coded = Coded(code), error = at::zeros({1000}, at::kBFloat16);
  CodingLoss loss;
  const UnitValues sum{.flat = at::zeros({1000})};
  for (int time = 0; time < 50; ++time) {
    code.Encode({0, 5}, values, coded, 0, error, loss);
    const UnitCode::Addend addends[] = {{.values = sum}, {coded, 0, {}}};
    code.Reduce({0, 5}, addends, sum, {}, 0, {}, loss);
  }
  // Rounded to bf16 each time.
  EXPECT_LE(Difference(50 * values.flat, sum.flat + error.to(at::kFloat)), 0.1);
  EXPECT_LE(error.to(at::kFloat).abs().max().item<double>(), 1);
}

// As if the sum had been kept and coded later.
TEST(UnitCodeTest, ASumCanBeCodedAtOnce) {
  for (const int bits : {4, 6, 8, 16, 32}) {
    const UnitCode code(CodedUnit(), kPieces, bits);
    const UnitValues own{.flat = RandomNormal({1000}, 1)}, other{.flat = RandomNormal({1000}, 2)};
    const at::Tensor sent = Coded(code), expected = Coded(code), got = Coded(code);
    CodingLoss loss;
    code.Encode({0, 5}, other, sent, 0, {}, loss);
    const UnitCode::Addend addends[] = {{.values = own}, {sent, 0, {}}};
    const UnitValues sum = Blank();
    code.Reduce({0, 5}, addends, sum, {}, 0, {}, loss);
    code.Encode({0, 5}, sum, expected, 0, {}, loss);
    for (const PieceRange& pieces : {PieceRange{0, 2}, PieceRange{2, 3}})
      code.Reduce(pieces, addends, {}, got, 0, {}, loss);
    EXPECT_TRUE(at::equal(got, expected)) << bits;
    EXPECT_EQ(loss.Take().error_energy > 0, bits < 16);
  }
}

TEST(UnitCodeTest, TellsOfWhatHasNoCode) {
  const UnitCode code(CodedUnit(), kPieces, 8), wide(CodedUnit(), kPieces, 16);
  const UnitValues values{.flat = at::full({1000}, std::numeric_limits<float>::quiet_NaN())};
  CodingLoss loss;
  code.Encode({0, 5}, values, Coded(code), 0, {}, loss);
  EXPECT_FALSE(loss.Take().finite);
  wide.Encode({0, 5}, values, Coded(wide), 0, {}, loss);
  EXPECT_TRUE(loss.Take().finite);
}

}  // namespace
}  // namespace longhaul
