// Feature tables that a kernel gathers, against the rows themselves: emulated on the CPU, and on a
// CUDA device (skips where there is none).
#include "worker/graph/cuda/gather_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "ATen/core/Tensor.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/from_blob.h"
#include "ATen/ops/tensor.h"
#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "tests/testing/emulated_gather_kernels.h"
#include "tests/testing/graph_files.h"
#include "tests/testing/temp_dir.h"
#include "worker/engine/device.h"
#include "worker/graph/feature_table.h"

namespace longhaul {
namespace {

struct DeviceUnderTest {
  at::Device device;
  const GatherKernels* kernels;
};

absl::StatusOr<DeviceUnderTest> Emulated() {
  static const testing_support::EmulatedGatherKernels kernels;
  return DeviceUnderTest{at::kCPU, &kernels};
}

absl::StatusOr<DeviceUnderTest> Cuda() {
  LH_ASSIGN_OR_RETURN(const at::Device device, OpenCudaDevice(0));
  LH_ASSIGN_OR_RETURN(const GatherKernels* kernels, LoadCudaGatherKernels());
  return DeviceUnderTest{device, kernels};
}

class GatherKernelsSuite : public testing::TestWithParam<absl::StatusOr<DeviceUnderTest> (*)()> {};

TEST_P(GatherKernelsSuite, BothKindsOfTablesGiveTheRows) {
  const absl::StatusOr<DeviceUnderTest> opened = GetParam()();
  if (absl::IsFailedPrecondition(opened.status())) GTEST_SKIP() << opened.status().message();
  ASSERT_TRUE(opened.ok()) << opened.status();
  constexpr int64_t kRows = 300;
  const TempDir dir;
  for (const int64_t columns : {1, 3, 4, 25, 32, 33, 100, 128, 129, 602}) {
    testing_support::GraphContent graph = testing_support::RingGraph(kRows, columns);
    Random random(columns);
    for (float& value : graph.features) value = static_cast<float>(random.Uniform());
    const std::string path = dir.Join(absl::StrCat("g", columns));
    testing_support::WriteGraph(graph, path);
    const GraphFolder folder = GraphFolder::Open(path).value();
    const auto host = HostRows::Copy(folder, nullptr).value();
    const at::Tensor on_device =
        at::from_blob(const_cast<float*>(host->data()), {kRows, columns}, at::kFloat)
            .to(opened->device);
    std::vector<std::unique_ptr<KernelTable>> tables;
    tables.push_back(KernelTable::ZeroCopy(host, opened->kernels).value());
    tables.push_back(
        KernelTable::OnDevice(on_device.const_data_ptr<float>(), kRows, columns, opened->kernels));
    for (const bool sorted : {false, true}) {
      std::vector<int64_t> ids;
      for (int i = 0; i < 500; ++i) ids.push_back(static_cast<int64_t>(random.Below(kRows)));
      if (sorted) std::sort(ids.begin(), ids.end());
      const RowOrder order = AscendingRows(ids, kRows).value();
      const at::Tensor read =
          at::tensor(order.ids, c10::TensorOptions(at::kLong)).to(opened->device);
      const at::Tensor places =
          at::tensor(order.places, c10::TensorOptions(at::kInt)).to(opened->device);
      for (const auto& table : tables) {
        const at::Tensor out =
            at::empty({500, columns}, at::TensorOptions(at::kFloat).device(opened->device));
        // On the default stream, which the copy back waits for.
        ASSERT_TRUE(table
                        ->Gather(read.const_data_ptr<int64_t>(),
                                 sorted ? nullptr : places.const_data_ptr<int32_t>(), 500,
                                 out.mutable_data_ptr<float>(), nullptr)
                        .ok());
        const at::Tensor rows = out.to(at::kCPU);
        for (size_t i = 0; i < ids.size(); ++i) {
          ASSERT_EQ(std::memcmp(rows.const_data_ptr<float>() + i * columns,
                                &folder.features()[ids[i] * columns], columns * sizeof(float)),
                    0)
              << NameOf(table->access()) << ", " << columns << " columns";
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Emulated, GatherKernelsSuite, testing::Values(&Emulated));
INSTANTIATE_TEST_SUITE_P(Cuda, GatherKernelsSuite, testing::Values(&Cuda));

}  // namespace
}  // namespace longhaul
