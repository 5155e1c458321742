#include "worker/kernels/attention.h"

#include "tests/unit/worker/kernels/reference.h"

namespace longhaul::kernels {
namespace {

struct Reference {
  Doubles out, log_sum, dqkv;
};

// Causal attention and its gradients as the textbook has them, of each position from starts[t] on.
// Strides: `stride` of q, k, v, which lie side by side, and heads * width of out.
Reference Define(const AttentionShape& s, const Values& qkv, int64_t stride, const Values& dout,
                 const std::vector<int64_t>& starts) {
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
      for (int64_t u = starts[t]; u <= t; ++u) {
        double score = 0;
        for (int64_t i = 0; i < width; ++i) score += qkv[q + i] * qkv[key(u, i)];
        sum += p[u] = std::exp(score * scale);
      }
      r.log_sum[head * s.positions + t] = std::log(sum);
      double dot = 0;
      for (int64_t u = starts[t]; u <= t; ++u) {
        p[u] /= sum;
        for (int64_t i = 0; i < width; ++i) r.out[o + i] += p[u] * qkv[value(u, i)];
      }
      for (int64_t i = 0; i < width; ++i) dot += r.out[o + i] * dout[o + i];
      for (int64_t u = starts[t]; u <= t; ++u) {
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

// Forward and backward of q, k, v that lie side by side. What they do not write keeps odd values.
// `parts`: computed in so many, the last one first.
struct Attended {
  Attended(const AttentionShape& s, const Values& qkv, const Values& dout, const int64_t* starts,
           int64_t parts = 1)
      : out(dout.size(), 3), log_sum(s.query_heads * s.positions), gradients(qkv.size(), 4) {
    const int64_t key = s.query_heads * s.width, value = key + s.width, stride = value + s.width;
    const AttentionInputs in{qkv.data(), qkv.data() + key, qkv.data() + value, stride, starts};
    Values scratch(AttentionScratch(s), 5);
    for (int64_t i = 0; i < scratch.size(); ++i) scratch.data()[i] = NAN;
    float* const dq = gradients.data();
    const AttentionGradients g{dq, dq + key, dq + value, stride};
    if (parts == 1) {
      AttentionForward(s, in, out.data(), key, log_sum.data(), scratch.data());
      AttentionBackward(s, in, out.data(), dout.data(), key, log_sum.data(), g, scratch.data());
      return;
    }
    for (int64_t part = parts; part-- > 0;)
      AttentionForward(s, in, out.data(), key, log_sum.data(), scratch.data(), {part, parts});
    for (int64_t part = parts; part-- > 0;) {
      for (const auto backward : {AttentionBackwardKeys, AttentionBackwardQueries}) {
        for (int64_t i = 0; i < scratch.size(); ++i) scratch.data()[i] = NAN;
        backward(s, in, out.data(), dout.data(), key, log_sum.data(), g, scratch.data(),
                 {part, parts});
      }
    }
  }
  Values out, log_sum, gradients;
};

// starts[t] of documents of these lengths, again and again.
std::vector<int64_t> Documents(int64_t positions, const std::vector<int64_t>& lengths) {
  std::vector<int64_t> starts;
  for (size_t i = 0; static_cast<int64_t>(starts.size()) < positions; ++i) {
    const auto start = static_cast<int64_t>(starts.size());
    starts.resize(std::min(positions, start + lengths[i % lengths.size()]), start);
  }
  return starts;
}

void ExpectTheDefinition(int64_t positions, const std::vector<int64_t>& lengths) {
  for (const auto& [width, heads] :
       {std::pair<int64_t, int64_t>{2, 1}, {6, 3}, {24, 1}, {32, 2}, {50, 1}}) {
    SCOPED_TRACE(testing::Message() << positions << " positions, width " << width
                                    << ", the first document " << lengths[0]);
    const AttentionShape s{positions, width, heads};
    const int64_t stride = (heads + 2) * width;
    const Values qkv(positions * stride), dout(positions * heads * width, 2);
    const std::vector<int64_t> starts = Documents(positions, lengths);
    const Reference expected = Define(s, qkv, stride, dout, starts);
    const Attended actual(s, qkv, dout, lengths[0] >= positions ? nullptr : starts.data());
    ExpectNear(actual.out, expected.out, 1e-5);
    ExpectNear(actual.log_sum, expected.log_sum, 1e-5);
    ExpectNear(actual.gradients, expected.dqkv, 2e-5);
  }
}

TEST(AttentionTest, EqualsTheDefinition) {
  OnEachTarget([] {
    for (const int64_t positions : {1, 2, 15, 16, 17, 47, 49, 64, 65, 130})
      ExpectTheDefinition(positions, {positions});
  });
}

TEST(AttentionTest, EqualsTheDefinitionOfSeveralDocuments) {
  OnEachTarget([] {
    for (const int64_t positions : {2, 17, 64, 65, 130, 200}) {
      for (const std::vector<int64_t>& lengths :
           {std::vector<int64_t>{1}, {1, 16}, {3, 1, 5}, {16}, {48}, {47, 2}, {15, 33, 1, 70}})
        ExpectTheDefinition(positions, lengths);
    }
  });
}

// What threads share the work by.
TEST(AttentionTest, PartsGiveTheBitsOfTheWhole) {
  OnEachTarget([] {
    for (const int64_t positions : {1, 63, 200, 331}) {
      for (const std::vector<int64_t>& lengths :
           {std::vector<int64_t>{1000}, {15, 33, 1, 70}, {130, 47}}) {
        const AttentionShape s{positions, 24, 3};
        const Values qkv(positions * 120), dout(positions * 72, 2);
        const std::vector<int64_t> starts = Documents(positions, lengths);
        const Attended whole(s, qkv, dout, starts.data());
        for (const int64_t parts : {2, 3, 9}) {
          const Attended cut(s, qkv, dout, starts.data(), parts);
          SCOPED_TRACE(testing::Message() << positions << " positions, " << parts << " parts");
          for (int64_t i = 0; i < whole.out.size(); ++i) ASSERT_EQ(whole.out[i], cut.out[i]) << i;
          for (int64_t i = 0; i < whole.log_sum.size(); ++i)
            ASSERT_EQ(whole.log_sum[i], cut.log_sum[i]) << i;
          for (int64_t i = 0; i < whole.gradients.size(); ++i)
            ASSERT_EQ(whole.gradients[i], cut.gradients[i]) << i;
        }
      }
    }
  });
}

TEST(AttentionTest, OneDocumentHasTheBitsOfNone) {
  const AttentionShape s{150, 24, 2};
  const Values qkv(150 * 96), dout(150 * 48, 2);
  const std::vector<int64_t> starts(150, 0);
  const Attended one(s, qkv, dout, starts.data()), none(s, qkv, dout, nullptr);
  for (int64_t i = 0; i < one.out.size(); ++i) ASSERT_EQ(one.out[i], none.out[i]);
  for (int64_t i = 0; i < qkv.size(); ++i) ASSERT_EQ(one.gradients[i], none.gradients[i]);
}

TEST(AttentionTest, NothingOfADocumentChangesABitOfAnother) {
  OnEachTarget([] {
    const AttentionShape s{150, 24, 2};
    const int64_t stride = 96, out_stride = 48, begin = 51, end = 70;
    const std::vector<int64_t> starts = Documents(150, {begin, end - begin, 40});
    const Values qkv(150 * stride), dout(150 * out_stride, 2);
    Values changed = qkv, changed_dout = dout;
    for (int64_t i = begin * stride; i < end * stride; ++i) changed.data()[i] *= -30;
    for (int64_t i = begin * out_stride; i < end * out_stride; ++i) changed_dout.data()[i] += 7;
    const Attended before(s, qkv, dout, starts.data());
    const Attended after(s, changed, changed_dout, starts.data());
    for (int64_t t = 0; t < 150; ++t) {
      if (begin <= t && t < end) continue;
      for (int64_t i = 0; i < out_stride; ++i)
        ASSERT_EQ(before.out[t * out_stride + i], after.out[t * out_stride + i]) << t;
      for (int64_t i = 0; i < stride; ++i)
        ASSERT_EQ(before.gradients[t * stride + i], after.gradients[t * stride + i]) << t;
    }
    EXPECT_NE(before.out[begin * out_stride], after.out[begin * out_stride]);
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
