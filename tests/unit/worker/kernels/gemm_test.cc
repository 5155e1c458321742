#include "worker/kernels/gemm.h"

#include <array>
#include <cstring>

#include "tests/unit/worker/kernels/reference.h"
#include "worker/kernels/gemm_bf16.h"
#include "worker/kernels/gemm_bf16_avx512.h"

namespace longhaul::kernels {
namespace {

constexpr std::array<int64_t, 3> kSizes[] = {  // Rows, depth, columns.
    {0, 3, 5},  {1, 1, 1},    {3, 0, 4},    {7, 5, 15},    {8, 16, 16},   {9, 17, 17},
    {5, 4, 33}, {16, 31, 48}, {13, 30, 49}, {23, 130, 97}, {11, 1100, 70}};

double At(const FloatMatrix& m, int64_t i, int64_t j) {
  return m.data[i * m.row_stride + j * m.column_stride];
}

Doubles Expected(const FloatMatrix& a, const FloatMatrix& b, const Product& p, const Values& c) {
  Doubles result(c.data(), c.data() + c.size());
  for (int64_t i = 0; i < p.rows; ++i) {
    for (int64_t j = 0; j < p.columns; ++j) {
      double& to = result[i * p.c_stride + j];
      if (!p.add) to = 0;
      for (int64_t k = 0; k < p.depth; ++k) to += At(a, i, k) * At(b, k, j);
    }
  }
  return result;
}

// Of sums of so many terms below 1.
double Bound(int64_t depth) { return 1e-6 * (2 + std::sqrt(static_cast<double>(depth))); }

int64_t Panels(int64_t columns) { return (columns + kPanelColumns - 1) / kPanelColumns; }

TEST(GemmTest, EqualsTheDefinition) {
  OnEachTarget([] {
    for (const auto& [rows, depth, columns] : kSizes) {
      SCOPED_TRACE(testing::Message() << rows << " " << depth << " " << columns);
      const Values left(rows * depth, 2), right(depth * columns, 3);
      for (const bool turned_left : {false, true}) {
        for (const bool turned_right : {false, true}) {
          const FloatMatrix a =
              turned_left ? FloatMatrix{left.data(), 1, rows} : FloatMatrix{left.data(), depth, 1};
          const FloatMatrix b = turned_right ? FloatMatrix{right.data(), 1, depth}
                                             : FloatMatrix{right.data(), columns, 1};
          for (const bool add : {false, true}) {
            Values panels(PanelElements(depth, columns)), c(rows * (columns + 2));
            const Product product{rows, depth, columns, columns + 2, add};
            const Doubles expected = Expected(a, b, product, c);
            PackPanels(b, depth, columns, 0, Panels(columns), panels.data());
            Multiply(a, panels.data(), product, c.data());
            ExpectNear(c, expected, Bound(depth));
          }
        }
      }
    }
  });
}

// What threads share the work by.
TEST(GemmTest, PartsGiveTheBitsOfTheWhole) {
  const int64_t rows = 29, depth = 70, columns = 101;
  const Values a(rows * depth, 2), b(depth * columns, 3);
  Values panels(PanelElements(depth, columns)), again(PanelElements(depth, columns), 9);
  Values whole(rows * columns), parts(rows * columns, 4);
  PackPanels({b.data(), columns, 1}, depth, columns, 0, Panels(columns), panels.data());
  for (int64_t panel = 0; panel < Panels(columns); ++panel)
    PackPanels({b.data(), columns, 1}, depth, columns, panel, panel + 1, again.data());
  Multiply({a.data(), depth, 1}, panels.data(), {rows, depth, columns, columns}, whole.data());
  for (int64_t first = 0; first < rows; first += 3) {
    const int64_t count = std::min<int64_t>(3, rows - first);
    Multiply({a.data() + first * depth, depth, 1}, again.data(), {count, depth, columns, columns},
             parts.data() + first * columns);
  }
  EXPECT_EQ(std::memcmp(whole.data(), parts.data(), rows * columns * sizeof(float)), 0);
}

float Round16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
  std::memcpy(&value, &bits, 4);
  return value;
}
uint16_t Bits16(float value) {
  uint32_t bits;
  value = Round16(value);
  std::memcpy(&bits, &value, 4);
  return static_cast<uint16_t>(bits >> 16);
}

struct Bf16Case {
  int64_t rows, depth, columns;
  bool add;
  const Values& left;
  const Values& right;
};

// dW = dy^T x: both sides have the depth across.
void CheckBf16Gradient(const Bf16Case& k, decltype(MultiplyBf16)* multiply) {
  const int64_t pairs = (k.depth + 1) / 2;
  std::vector<uint32_t> panels(PanelElements(pairs, k.columns)), lefts(pairs * k.rows);
  Values left = k.left, right = k.right, c(k.rows * k.columns);
  for (int64_t i = 0; i < left.size(); ++i) left.data()[i] = Round16(left[i]);
  for (int64_t i = 0; i < right.size(); ++i) right.data()[i] = Round16(right[i]);
  const Product product{k.rows, k.depth, k.columns, k.columns, k.add};
  const Doubles expected =
      Expected({left.data(), 1, k.rows}, {right.data(), k.columns, 1}, product, c);
  PackPanelsBf16(MatrixRef<float>{k.right.data(), k.columns, 1}, k.depth, k.columns, 0,
                 Panels(k.columns), panels.data());
  PairRows(k.left.data(), k.depth, k.rows, lefts.data());
  multiply({lefts.data(), 1, k.rows}, panels.data(), product, c.data());
  ExpectNear(c, expected, Bound(k.depth));
}

// y = x W^T and dx = dy W, of weights in bf16.
void CheckBf16Rows(const Bf16Case& k, bool turned, decltype(MultiplyBf16)* multiply) {
  const int64_t pairs = (k.depth + 1) / 2;
  std::vector<uint32_t> panels(PanelElements(pairs, k.columns)), lefts(pairs * k.rows);
  Values left = k.left, right = k.right, c(k.rows * k.columns);
  std::vector<uint16_t> weights(right.size());
  for (int64_t i = 0; i < left.size(); ++i) left.data()[i] = Round16(left[i]);
  for (int64_t i = 0; i < right.size(); ++i) {
    weights[i] = Bits16(right[i]);
    right.data()[i] = Round16(right[i]);
  }
  const int64_t row = turned ? 1 : k.columns, column = turned ? k.depth : 1;
  const Product product{k.rows, k.depth, k.columns, k.columns, k.add};
  const Doubles expected =
      Expected({left.data(), k.depth, 1}, {right.data(), row, column}, product, c);
  PackPanelsBf16(MatrixRef<uint16_t>{weights.data(), row, column}, k.depth, k.columns, 0,
                 Panels(k.columns), panels.data());
  RowsToPairs(k.left.data(), k.rows, k.depth, lefts.data());
  multiply({lefts.data(), pairs, 1}, panels.data(), product, c.data());
  ExpectNear(c, expected, Bound(k.depth));
}

void CheckBf16(decltype(MultiplyBf16)* multiply) {
  for (const auto& [rows, depth, columns] : kSizes) {
    SCOPED_TRACE(testing::Message() << rows << " " << depth << " " << columns);
    const Values left(rows * depth, 2), right(depth * columns, 3);
    for (const bool add : {false, true}) {
      const Bf16Case k{rows, depth, columns, add, left, right};
      CheckBf16Gradient(k, multiply);
      CheckBf16Rows(k, false, multiply);
      CheckBf16Rows(k, true, multiply);
    }
  }
}

TEST(GemmBf16Test, PortableEqualsTheDefinition) {
  OnEachTarget([] { CheckBf16(&MultiplyBf16Portable); });
}

TEST(GemmBf16Test, TheChosenOneEqualsTheDefinition) {
  CheckBf16(&MultiplyBf16);
  if (HasAvx512Bf16()) CheckBf16(&MultiplyBf16Avx512);
}

TEST(GemmBf16Test, KeepsWhatIsNotANumber) {
  OnEachTarget([] {
    const float values[] = {NAN, -NAN, INFINITY, -INFINITY, 3.4e38f, 1.0f};
    uint32_t pairs[3];
    RowsToPairs(values, 1, 6, pairs);
    for (int i = 0; i < 6; ++i) {
      const uint32_t bits = i % 2 == 0 ? pairs[i / 2] << 16 : pairs[i / 2] & 0xffff0000;
      float back;
      std::memcpy(&back, &bits, 4);
      if (std::isnan(values[i])) {
        EXPECT_TRUE(std::isnan(back)) << i;
      } else {
        EXPECT_EQ(back, i == 4 ? INFINITY : values[i]) << i;
      }
    }
  });
}

}  // namespace
}  // namespace longhaul::kernels
