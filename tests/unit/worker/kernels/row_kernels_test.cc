// RMSNorm, rotary positions, SwiGLU.
#include "tests/unit/worker/kernels/reference.h"
#include "worker/kernels/rms_norm.h"
#include "worker/kernels/rotary.h"
#include "worker/kernels/swiglu.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kWidths[] = {1, 2, 7, 15, 16, 17, 31, 96, 250};

TEST(RmsNormTest, EqualsTheDefinition) {
  const double eps = 1e-3;
  OnEachTarget([&] {
    for (const int64_t rows : {0, 1, 3}) {
      for (const int64_t width : kWidths) {
        const Values x(rows * width), weight(width, 2), dy(rows * width, 3),
            residual(rows * width, 4);
        Values y(rows * width), inverse(rows), dx(rows * width), dweight(width, 5),
            again(rows * width);
        Doubles y_expected(y.size()), dx_expected(y.size());
        Doubles dw_expected(dweight.data(), dweight.data() + width);
        for (int64_t row = 0; row < rows; ++row) {
          double squares = 0, dot = 0;
          const int64_t at = row * width;
          for (int64_t i = 0; i < width; ++i) {
            squares += x[at + i] * x[at + i];
            dot += dy[at + i] * weight[i] * x[at + i];
          }
          const double r = 1 / std::sqrt(squares / static_cast<double>(width) + eps);
          for (int64_t i = 0; i < width; ++i) {
            y_expected[at + i] = x[at + i] * r * weight[i];
            dx_expected[at + i] = residual[at + i] + r * weight[i] * dy[at + i] -
                                  x[at + i] * r * r * r * dot / static_cast<double>(width);
            dw_expected[i] += dy[at + i] * x[at + i] * r;
          }
        }
        RmsNormForward(x.data(), weight.data(), eps, rows, width, y.data(), inverse.data());
        ExpectNear(y, y_expected, 1e-5);
        RmsNormBackward(dy.data(), x.data(), weight.data(), inverse.data(), rows, width,
                        {residual.data(), dx.data(), dweight.data(), again.data()});
        ExpectNear(dx, dx_expected, 1e-4);
        ExpectNear(dweight, dw_expected, 1e-4);
        ExpectNear(again, y_expected, 1e-5);
      }
    }
  });
}

TEST(RmsNormTest, TheGradientMayReplaceWhatItIsMadeOf) {
  const int64_t rows = 3, width = 21;
  const Values x(rows * width), weight(width, 2), dy(rows * width, 3);
  Values y(rows * width), inverse(rows), dx(rows * width), in_place = dy, sums(width), other(width);
  RmsNormForward(x.data(), weight.data(), 1e-5, rows, width, y.data(), inverse.data());
  RmsNormBackward(dy.data(), x.data(), weight.data(), inverse.data(), rows, width,
                  {.dx = dx.data(), .dweight = sums.data()});
  RmsNormBackward(in_place.data(), x.data(), weight.data(), inverse.data(), rows, width,
                  {.dx = in_place.data(), .dweight = other.data()});
  for (int64_t i = 0; i < dx.size(); ++i) EXPECT_EQ(dx[i], in_place[i]);
}

TEST(RotaryTest, TurnsPairsAndBack) {
  OnEachTarget([] {
    for (const int64_t half : {1, 3, 8, 12, 16, 33}) {
      const int64_t heads = 3, width = 2 * half;
      const Values x(heads * width), angles(half, 2);
      Values cos(half), sin(half), turned = x;
      Doubles expected(x.size());
      for (int64_t i = 0; i < half; ++i) {
        cos.data()[i] = std::cos(angles[i]);
        sin.data()[i] = std::sin(angles[i]);
      }
      for (int64_t head = 0; head < heads; ++head) {
        for (int64_t i = 0; i < half; ++i) {
          const int64_t a = head * width + i, b = a + half;
          expected[a] = x[a] * cos[i] - x[b] * sin[i];
          expected[b] = x[b] * cos[i] + x[a] * sin[i];
        }
      }
      Rotate(turned.data(), heads, width, cos.data(), sin.data());
      ExpectNear(turned, expected, 1e-6);
      RotateBack(turned.data(), heads, width, cos.data(), sin.data());
      ExpectNear(turned, Doubles(x.data(), x.data() + x.size()), 1e-6);
    }
  });
}

TEST(SwiGluTest, EqualsTheDefinition) {
  OnEachTarget([] {
    for (const int64_t rows : {0, 1, 3}) {
      for (const int64_t width : kWidths) {
        Values gate_up(rows * 2 * width), h(rows * width), dh(rows * width, 2);
        for (int64_t i = 0; i < gate_up.size(); ++i) gate_up.data()[i] *= 10;
        Doubles h_expected(h.size()), expected(gate_up.size());
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t i = 0; i < width; ++i) {
            const int64_t g = row * 2 * width + i, u = g + width, o = row * width + i;
            const double gate = gate_up[g], s = 1 / (1 + std::exp(-gate));
            h_expected[o] = gate * s * gate_up[u];
            expected[g] = dh[o] * gate_up[u] * s * (1 + gate * (1 - s));
            expected[u] = dh[o] * gate * s;
          }
        }
        SwiGluForward(gate_up.data(), rows, width, h.data());
        ExpectNear(h, h_expected, 1e-5);
        // In place, as blocks use it.
        SwiGluBackward(dh.data(), gate_up.data(), rows, width, gate_up.data(), dh.data());
        ExpectNear(gate_up, expected, 1e-5);
        ExpectNear(dh, h_expected, 1e-5);
      }
    }
  });
}

TEST(SwiGluTest, FarGatesStayFinite) {
  const float gate_up[] = {-200, 200, 3, 3};
  float h[2];
  SwiGluForward(gate_up, 1, 2, h);
  EXPECT_NEAR(h[0], 0, 1e-30);
  EXPECT_EQ(h[1], 600);
}

}  // namespace
}  // namespace longhaul::kernels
