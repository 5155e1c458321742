#include "worker/offload/host_memory.h"

#include "absl/strings/str_format.h"
#include "common/base/status_marks.h"

namespace longhaul {
namespace {

std::string Size(int64_t bytes) {
  constexpr double kMiB = 1 << 20;
  const double mib = static_cast<double>(bytes) / kMiB;
  return mib < 1024 ? absl::StrFormat("%.1f MiB", mib) : absl::StrFormat("%.1f GiB", mib / 1024);
}

}  // namespace

absl::Status CheckHostMemory(const OffloadNeed& need, int ranks, int64_t available) {
  if (ranks * need.total() <= available) return absl::OkStatus();
  const std::string message = absl::StrFormat(
      "this node needs %s of host memory and has %s left: %d ranks of %s (masters %s, weights %s, "
      "moments and gradients %s, emulated device %s); use more nodes, or a partition that splits "
      "the optimizer state over more ranks",
      Size(ranks * need.total()), Size(available), ranks, Size(need.total()), Size(need.masters),
      Size(need.weights), Size(need.optimizer), Size(need.emulated));
  return AboutField("offload", absl::FailedPreconditionError(message));
}

absl::Status CheckEvaluationMemory(const EvaluationNeed& need, int ranks, int64_t available) {
  if (ranks * need.total() <= available) return absl::OkStatus();
  const std::string message = absl::StrFormat(
      "this node needs %s of memory for it and has %s left: %d ranks of %s (%d copies of the "
      "weights of %s, activations %s); leave it out, or use a smaller batch",
      Size(ranks * need.total()), Size(available), ranks, Size(need.total()), need.copies,
      Size(need.copy), Size(need.activations));
  return AboutField("evaluation.beside_training", absl::FailedPreconditionError(message));
}

}  // namespace longhaul
