// Chooses how the rows of features reach the model: the kind of access that the spec names, or the
// fastest of those that are possible here.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "c10/core/Device.h"
#include "common/graph/graph_folder.h"
#include "worker/family/graph/device_features.h"
#include "worker/family/graph/feature_options.h"
#include "worker/graph/feature_table.h"

namespace longhaul {

struct FeatureSite {
  c10::Device device = c10::Device(c10::kCPU);
  // Null: there is no device.
  const GatherKernels* kernels = nullptr;
  // Ranks of this machine, which share one copy in host memory.
  int ranks_of_node = 1;
  int threads = 1;
};

struct Features {
  FeatureAccess access = FeatureAccess::kMapped;
  // What the processor reads. Null: the mapping.
  std::shared_ptr<HostRows> rows;
  // Null on a CPU.
  std::unique_ptr<DeviceFeatures> on_device;
  // "zero_copy, 21.4 GB/s; measured besides: host 12.1, mapped 9.8".
  std::string description;
  // Why another kind of access is used than the one that was asked for. Empty: it is that one.
  std::string instead;
};

// `sample`: rows as a batch has them; gathers of them are timed, for less than a second for each
// kind. Blocks on the disk. RESOURCE_EXHAUSTED: the kind that was asked for needs more memory than
// there is. DATA_LOSS: the file was cut or changed. Throws as torch does.
absl::StatusOr<Features> OpenFeatures(const FeatureOptions& options,
                                      std::shared_ptr<const GraphFolder> folder,
                                      absl::Span<const int64_t> sample, const FeatureSite& site);

}  // namespace longhaul
