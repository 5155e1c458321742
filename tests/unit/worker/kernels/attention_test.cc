#include "worker/kernels/attention.h"

#include "tests/unit/worker/kernels/reference.h"

namespace longhaul::kernels {
namespace {

struct Reference {
  Doubles out, log_sum, dqkv;
};

// Causal attention and its gradients as the textbook has them. Strides: `stride` of q, k, v, which lie
// side by side, and heads * width of out.
Reference Define(const AttentionShape& s, const Values& qkv, int64_t stride, const Values& dout) {
  const int64_t heads = s.query_heads, width = s.width, out_stride = heads * width;
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  const auto key = [&](int64_t t, int64_t i) { return t * stride + heads * width + i; };
  const auto value = [&](int64_t t, int64_t i) { return key(t, i) + width; };
  Reference r{.out = Doubles(s.positions * out_stride),
              .log_sum = Doubles(heads * s.positions),
              .dqkv = Doubles(s.positions * stride)};
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t t = 0; t < s.positions; ++t) {
      const int64_t q = t * stride + head * width, o = t * out_stride + head * width;
      Doubles p(t + 1);
      double sum = 0;
      for (int64_t u = 0; u <= t; ++u) {
        double score = 0;
        for (int64_t i = 0; i < width; ++i) score += qkv[q + i] * qkv[key(u, i)];
        sum += p[u] = std::exp(score * scale);
      }
      r.log_sum[head * s.positions + t] = std::log(sum);
      double dot = 0;
      for (int64_t u = 0; u <= t; ++u) {
        p[u] /= sum;
        for (int64_t i = 0; i < width; ++i) r.out[o + i] += p[u] * qkv[value(u, i)];
      }
      for (int64_t i = 0; i < width; ++i) dot += r.out[o + i] * dout[o + i];
      for (int64_t u = 0; u <= t; ++u) {
        double dp = 0;
        for (int64_t i = 0; i < width; ++i) dp += dout[o + i] * qkv[value(u, i)];
        const double ds = p[u] * (dp - dot) * scale;
        for (int64_t i = 0; i < width; ++i) {
          r.dqkv[q + i] += ds * qkv[key(u, i)];
          r.dqkv[key(u, i)] += ds * qkv[q + i];
          r.dqkv[value(u, i)] += p[u] * dout[o + i];
        }
      }
    }
  }
  return r;
}

TEST(AttentionTest, EqualsTheDefinition) {
  OnEachTarget([] {
    for (const int64_t positions : {1, 2, 15, 16, 17, 47, 49, 64, 65, 130}) {
      for (const auto& [width, heads] :
           {std::pair<int64_t, int64_t>{2, 1}, {6, 3}, {24, 1}, {32, 2}, {50, 1}}) {
        SCOPED_TRACE(testing::Message() << positions << " positions, width " << width);
        const AttentionShape s{positions, width, heads};
        const int64_t stride = (heads + 2) * width, out_stride = heads * width;
        const Values qkv(positions * stride), dout(positions * out_stride, 2);
        const Reference expected = Define(s, qkv, stride, dout);
        Values out(dout.size(), 3), log_sum(heads * positions), scratch(AttentionScratch(s));
        Values gradients(qkv.size(), 4);
        const AttentionInputs in{qkv.data(), qkv.data() + heads * width,
                                 qkv.data() + (heads + 1) * width, stride};
        AttentionForward(s, in, out.data(), out_stride, log_sum.data(), scratch.data());
        ExpectNear(out, expected.out, 1e-5);
        ExpectNear(log_sum, expected.log_sum, 1e-5);
        float* const dq = gradients.data();
        AttentionBackward(s, in, out.data(), dout.data(), out_stride, log_sum.data(),
                          {dq, dq + heads * width, dq + (heads + 1) * width, stride},
                          scratch.data());
        ExpectNear(gradients, expected.dqkv, 2e-5);
      }
    }
  });
}

// Scores whose exponentials are beyond float32.
TEST(AttentionTest, LargeScoresStayFinite) {
  const AttentionShape s{20, 16, 1};
  Values qkv(20 * 48), out(20 * 16), log_sum(20), scratch(AttentionScratch(s));
  for (int64_t i = 0; i < qkv.size(); ++i) qkv.data()[i] *= 100;
  AttentionForward(s, {qkv.data(), qkv.data() + 16, qkv.data() + 32, 48}, out.data(), 16,
                   log_sum.data(), scratch.data());
  for (int64_t i = 0; i < out.size(); ++i) ASSERT_LE(std::abs(out[i]), 100) << i;
}

}  // namespace
}  // namespace longhaul::kernels
