#include "worker/engine/tile_coder.h"

#include <gtest/gtest.h>

#include <limits>

#include "ATen/ops/equal.h"
#include "ATen/ops/zeros.h"
#include "common/layout/fragment_layout.h"
#include "tests/testing/emulated_cuda_runtime.h"
#include "tests/testing/random_tensor.h"

namespace longhaul {
namespace {

using testing_support::EmulatedSegmentKernels;

// A lone element, short blocks, a block, and two tiles of which one is short.
constexpr int64_t kSizes[] = {1, 100, kBlockElements, 1000, kTileElements + 333};

at::Tensor Bytes(const TileCoder& coder, int64_t elements) {
  return at::zeros({coder.Bytes(elements)}, at::kByte);
}

class TileCoderTest : public testing::TestWithParam<int> {
 protected:
  const EmulatedSegmentKernels kernels_{};
  const TileCoder host_{GetParam(), nullptr}, device_{GetParam(), &kernels_};
};

TEST_P(TileCoderTest, ADeviceGivesTheBytesOfTheHost) {
  for (const int64_t size : kSizes) {
    const at::Tensor values = RandomNormal({size});
    const at::Tensor error = RandomNormal({size}, 4).mul(0.1), device_error = error.clone();
    const at::Tensor coded = Bytes(host_, size), device_coded = Bytes(device_, size);
    CodingLoss loss, device_loss;
    host_.Encode(values, error, coded, loss);
    device_.Encode(values, device_error, device_coded, device_loss);
    EXPECT_TRUE(at::equal(coded, device_coded)) << size;
    EXPECT_TRUE(at::equal(error, device_error)) << size;
    const CodingLoss::Sums sums = loss.Take(), device_sums = device_loss.Take();
    EXPECT_DOUBLE_EQ(sums.error_energy, device_sums.error_energy);
    EXPECT_DOUBLE_EQ(sums.signal_energy, device_sums.signal_energy);
    const at::Tensor decoded = at::zeros({size}), device_decoded = at::zeros({size});
    host_.Decode(coded, decoded);
    device_.Decode(coded, device_decoded);
    EXPECT_TRUE(at::equal(decoded, device_decoded)) << size;
  }
}

TEST_P(TileCoderTest, ADeviceSumsAsTheHost) {
  for (const int64_t size : kSizes) {
    std::vector<TileCoder::Source> sources;
    CodingLoss loss;
    for (int sender = 0; sender < 2; ++sender) {
      const at::Tensor coded = Bytes(host_, size);
      host_.Encode(RandomNormal({size}, 1 + sender), {}, coded, loss);
      sources.push_back({.coded = coded});
    }
    sources.insert(sources.begin() + 1, {.values = RandomNormal({size}, 3)});
    const at::Tensor sum = at::zeros({size}), device_sum = at::zeros({size});
    const at::Tensor error = RandomNormal({size}, 4).mul(0.1), device_error = error.clone();
    const at::Tensor out = Bytes(host_, size), device_out = Bytes(device_, size);
    host_.Reduce(sources, size, sum, error, out, loss);
    device_.Reduce(sources, size, device_sum, device_error, device_out, loss);
    EXPECT_TRUE(at::equal(sum, device_sum)) << size;
    EXPECT_TRUE(at::equal(error, device_error)) << size;
    EXPECT_TRUE(at::equal(out, device_out)) << size;
    // The sum takes the place of an addend.
    device_.Reduce(sources, size, sources[1].values, {}, {}, loss);
    EXPECT_TRUE(at::equal(sum, sources[1].values)) << size;
  }
}

TEST_P(TileCoderTest, ADeviceTellsOfWhatHasNoCode) {
  const at::Tensor values = at::zeros({1000});
  values[700] = std::numeric_limits<float>::infinity();
  CodingLoss loss;
  device_.Encode(values, {}, Bytes(device_, 1000), loss);
  EXPECT_FALSE(loss.Take().finite);
  EXPECT_TRUE(loss.Take().finite) << "taken before";
  const TileCoder::Source sources[] = {{.values = values}};
  device_.Reduce(sources, 1000, {}, {}, Bytes(device_, 1000), loss);
  EXPECT_FALSE(loss.Take().finite);
}

INSTANTIATE_TEST_SUITE_P(Bits, TileCoderTest, testing::Values(4, 6, 8));

}  // namespace
}  // namespace longhaul
