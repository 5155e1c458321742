#include "worker/engine/partition_map.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace longhaul {

absl::StatusOr<PartitionMap> PartitionPreset(std::string_view name) {
  if (name.empty() || name == "ddp") return PartitionMap{};
  if (name == "zero1") return PartitionMap{.optimizer = PartitionLevel::kPool};
  if (name == "zero2")
    return PartitionMap{.gradients = PartitionLevel::kPool, .optimizer = PartitionLevel::kPool};
  const std::string shown(name);
  for (const std::string_view known : {"zero3", "zeropp", "frontier3"}) {
    if (name == known) {
      return absl::UnimplementedError(
          absl::StrCat("partition.preset: ", shown, " is not built yet; use ddp, zero1 or zero2"));
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("partition.preset: '", shown, "' is unknown; use ddp, zero1 or zero2"));
}

}  // namespace longhaul
