// BlockKernels behind device_layers.h, against the same layers by torch's operators: emulated on
// the CPU, and on a CUDA device (skips where there is none).
#include "worker/kernels/cuda/block_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "ATen/TensorOperators.h"
#include "ATen/ops/allclose.h"
#include "ATen/ops/empty_like.h"
#include "ATen/ops/equal.h"
#include "ATen/ops/eye.h"
#include "ATen/ops/full.h"
#include "common/base/status_macros.h"
#include "tests/testing/emulated_block_kernels.h"
#include "tests/testing/random_tensor.h"
#include "torch/csrc/autograd/autograd.h"
#include "worker/engine/device.h"
#include "worker/model/device_layers.h"
#include "worker/model/device_stream.h"
#include "worker/model/layers.h"

namespace longhaul {
namespace {

struct DeviceUnderTest {
  at::Device device;
  const BlockKernels* kernels;
};

absl::StatusOr<DeviceUnderTest> Emulated() {
  static const testing_support::EmulatedBlockKernels kernels;
  return DeviceUnderTest{at::kCPU, &kernels};
}

absl::StatusOr<DeviceUnderTest> Cuda() {
  LH_ASSIGN_OR_RETURN(const at::Device device, OpenCudaDevice(0));
  LH_ASSIGN_OR_RETURN(const BlockKernels* kernels, LoadCudaBlockKernels());
  return DeviceUnderTest{device, kernels};
}

class BlockKernelsSuite : public testing::TestWithParam<absl::StatusOr<DeviceUnderTest> (*)()> {
 protected:
  void SetUp() override {
    const absl::StatusOr<DeviceUnderTest> opened = GetParam()();
    if (absl::IsFailedPrecondition(opened.status())) GTEST_SKIP() << opened.status().message();
    ASSERT_TRUE(opened.ok()) << opened.status();
    device_ = *opened;
  }

  const BlockKernels& kernels() const { return *device_.kernels; }
  at::Tensor Random(at::IntArrayRef sizes, int seed, at::ScalarType type = at::kFloat) const {
    return RandomNormal(sizes, seed).to(device_.device, type);
  }
  RotaryTables Tables(int64_t positions, int64_t width) const {
    return MakeRotaryTables(positions, width, 10000, {}, device_.device);
  }

  // `actual` is of the type that the kernels compute, `expected` in float32.
  static void ExpectRounded(const at::Tensor& actual, const at::Tensor& expected) {
    const double relative = actual.scalar_type() == at::kFloat ? 1e-5 : 1.0 / 256;
    EXPECT_EQ(actual.sizes(), expected.sizes());
    EXPECT_TRUE(at::allclose(actual.to(at::kFloat), expected, relative, 1e-5))
        << (actual.to(at::kFloat) - expected).abs().max().item<float>();
  }

  // Compares results and gradients of x. `x` is what is rotated, with its strides.
  void ExpectRotatedAsByTorch(const at::Tensor& x, int64_t table_positions) const {
    const RotaryTables tables = Tables(table_positions, x.size(3));
    const at::Tensor mine = x.detach().requires_grad_();
    const at::Tensor wide = x.detach().to(at::kFloat).requires_grad_();
    const at::Tensor actual = Rotate(kernels(), mine, tables), expected = Rotate(wide, tables);
    ExpectRounded(actual, expected);
    const at::Tensor slope = Random(x.sizes(), 9, x.scalar_type());
    ExpectRounded(torch::autograd::grad({actual}, {mine}, {slope})[0],
                  torch::autograd::grad({expected}, {wide}, {slope.to(at::kFloat)})[0]);
  }

  void ExpectGatedAsByTorch(at::IntArrayRef sizes, at::ScalarType type) const {
    // Matrices that change nothing: what is left is the product.
    const int64_t width = sizes.back();
    const at::Tensor one = at::eye(width).to(device_.device, type);
    const at::Tensor gate_weight = Random({width, width}, 3, type);
    const at::Tensor x = Random(sizes, 1, type).requires_grad_();
    const at::Tensor wide = x.detach().to(at::kFloat).requires_grad_();
    const auto widened = [](const at::Tensor& t) { return t.to(at::kFloat); };
    const at::Tensor actual = SwiGlu(kernels(), x, gate_weight, one, one);
    const at::Tensor expected = SwiGlu(wide, widened(gate_weight), widened(one), widened(one));
    // Products of bfloat16 matrices are rounded, too.
    const double tolerance = type == at::kFloat ? 1e-4 : 0.06;
    const auto near = [&](const at::Tensor& a, const at::Tensor& b) {
      return at::allclose(widened(a), b, tolerance, tolerance);
    };
    EXPECT_TRUE(near(actual, expected));
    const at::Tensor slope = Random(sizes, 2, type);
    EXPECT_TRUE(near(torch::autograd::grad({actual}, {x}, {slope})[0],
                     torch::autograd::grad({expected}, {wide}, {widened(slope)})[0]));
  }

  // The kernel alone.
  at::Tensor Gated(const at::Tensor& gate, const at::Tensor& up) const {
    at::Tensor h = at::empty_like(gate);
    const absl::Status status = kernels().GateForward({.element = BlockElement::kBFloat16,
                                                       .elements = gate.numel(),
                                                       .gate = gate.const_data_ptr(),
                                                       .up = up.const_data_ptr(),
                                                       .h = h.mutable_data_ptr()},
                                                      CurrentStream(gate.device()));
    EXPECT_TRUE(status.ok()) << status;
    return h.to(at::kCPU, at::kFloat);
  }

  DeviceUnderTest device_{at::kCPU, nullptr};
};

TEST_P(BlockKernelsSuite, RotatesAsTorch) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    // Widths of whole packs, of none, and of the smallest head.
    for (const int64_t width : {64, 16, 12, 6, 2}) {
      SCOPED_TRACE(testing::Message() << at::toString(type) << " " << width);
      // As projections give it (heads within positions), and in its own order.
      const at::Tensor x = Random({2, 5, 3, width}, 1, type);
      ExpectRotatedAsByTorch(x.transpose(1, 2), 5);
      ExpectRotatedAsByTorch(x, 3);
    }
  }
}

TEST_P(BlockKernelsSuite, RotatesWhatIsNotDense) {
  const at::Tensor x = Random({2, 3, 4, 16}, 1);
  ExpectRotatedAsByTorch(x.narrow(3, 4, 8), 4);
  ExpectRotatedAsByTorch(x.narrow(2, 1, 2), 2);
  ExpectRotatedAsByTorch(x.select(0, 0).unsqueeze(0).expand({2, 3, 4, 16}), 4);
}

TEST_P(BlockKernelsSuite, RotatesMoreHeadsThanAThreadBlockHasThreads) {
  ExpectRotatedAsByTorch(Random({1, 2, 70, 32}, 1).transpose(1, 2), 2);
}

TEST_P(BlockKernelsSuite, RotatesWithLongerTables) {
  ExpectRotatedAsByTorch(Random({1, 2, 3, 8}, 1), 10);
}

TEST_P(BlockKernelsSuite, RotatesNothing) {
  const at::Tensor x = Random({0, 2, 3, 8}, 1).requires_grad_();
  const at::Tensor rotated = Rotate(kernels(), x, Tables(3, 8));
  EXPECT_EQ(rotated.sizes(), x.sizes());
  EXPECT_EQ(torch::autograd::grad({rotated.sum()}, {x})[0].sizes(), x.sizes());
  // A launch of no blocks is an error, and errors of launches stay.
  ExpectRotatedAsByTorch(Random({1, 2, 3, 8}, 1), 3);
}

TEST_P(BlockKernelsSuite, RefusesTablesOfAnotherShape) {
  EXPECT_THROW(Rotate(kernels(), Random({1, 2, 3, 8}, 1), Tables(2, 8)), c10::Error);
  EXPECT_THROW(Rotate(kernels(), Random({1, 2, 3, 8}, 1), Tables(3, 16)), c10::Error);
  EXPECT_THROW(Rotate(kernels(), Random({1, 2, 3, 8}, 1, at::kDouble), Tables(3, 8)), c10::Error);
}

TEST_P(BlockKernelsSuite, GatesAsTorch) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    // More than a thread block; whole packs; none.
    for (const std::vector<int64_t>& sizes :
         std::vector<std::vector<int64_t>>{{1, 70, 32}, {2, 3, 8}, {1, 3, 5}}) {
      SCOPED_TRACE(testing::Message() << at::toString(type) << " " << sizes.back());
      ExpectGatedAsByTorch(sizes, type);
    }
  }
}

// A step with such numbers is skipped, so they must stay what they are.
TEST_P(BlockKernelsSuite, KeepsWhatIsNotFinite) {
  const float infinity = INFINITY;
  const auto bf16 = [&](float x) {
    return at::full({1}, x, at::kFloat).to(device_.device, at::kBFloat16);
  };
  EXPECT_EQ(Gated(bf16(100), bf16(infinity)).item<float>(), infinity);
  EXPECT_EQ(Gated(bf16(3e38f), bf16(-3e38f)).item<float>(), -infinity);
  EXPECT_TRUE(std::isnan(Gated(bf16(NAN), bf16(1)).item<float>()));
  EXPECT_TRUE(std::isnan(Gated(bf16(1), bf16(-NAN)).item<float>()));
  EXPECT_EQ(Gated(bf16(-1000), bf16(1)).item<float>(), 0);
}

// The largest error of rounding to nearest is half of the last bit.
TEST_P(BlockKernelsSuite, RoundsOnceToNearest) {
  const at::Tensor gate = at::full({4096}, 100.0f).to(device_.device, at::kBFloat16);
  const at::Tensor up = Random({4096}, 4, at::kBFloat16);
  const at::Tensor exact = up.to(at::kCPU, at::kFloat) * 100;
  EXPECT_TRUE(at::equal(Gated(gate, up), exact.to(at::kBFloat16).to(at::kFloat)));
}

INSTANTIATE_TEST_SUITE_P(Emulated, BlockKernelsSuite, testing::Values(&Emulated));
INSTANTIATE_TEST_SUITE_P(Cuda, BlockKernelsSuite, testing::Values(&Cuda));

}  // namespace
}  // namespace longhaul
