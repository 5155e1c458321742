#include "worker/engine/product_times.h"

#include <gtest/gtest.h>

#include "ATen/Parallel.h"
#include "hwy/targets.h"
#include "worker/model/transformer_lm.h"

namespace longhaul {
namespace {

ModelLayout LayoutOf(int64_t dim) {
  return TransformerLm::Create({.layers = 1,
                                .dim = dim,
                                .heads = 4,
                                .kv_heads = 4,
                                .ff_dim = 2 * dim,
                                .context = 8,
                                .vocab = 50},
                               at::kCPU)
      .value()
      ->layout();
}

TEST(ProductTimesTest, OurKernelsAreTakenWithTheBestInstructions) {
  const int threads = at::get_num_threads();
  const ProductTimes times = MeasureProducts(LayoutOf(256), at::kFloat);
  EXPECT_GT(times.ours_ns, 0);
  EXPECT_GT(times.torch_ns, 0);
  EXPECT_EQ(at::get_num_threads(), threads);
// Sanitizers slow our kernels alone.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_FALSE(times.ours_are_slower()) << times.ours_ns << " " << times.torch_ns;
#endif
}

// As a CPU on which libtorch has instructions that Longhaul's kernels do not use.
TEST(ProductTimesTest, LibtorchIsTakenWhereItMultipliesMuchFaster) {
  if ((hwy::SupportedTargets() & (HWY_AVX3 | HWY_AVX2)) == 0)
    GTEST_SKIP() << "libtorch has no better instructions on this CPU";
  hwy::SetSupportedTargetsForTest(HWY_SSSE3);
  const ProductTimes times = MeasureProducts(LayoutOf(256), at::kFloat);
  hwy::SetSupportedTargetsForTest(0);
  EXPECT_TRUE(times.ours_are_slower()) << times.ours_ns << " " << times.torch_ns;
}

TEST(ProductTimesTest, SmallModelsAreNotMeasured) {
  const ProductTimes times = MeasureProducts(LayoutOf(96), at::kFloat);
  EXPECT_EQ(times.ours_ns, 0);
  EXPECT_FALSE(times.ours_are_slower());
}

}  // namespace
}  // namespace longhaul
