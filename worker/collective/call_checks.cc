#include "worker/collective/call_checks.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace longhaul {

absl::Status CheckTimeout(absl::string_view operation, const CallOptions& options) {
  if (options.timeout > absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(operation, ": timeout must be positive"));
}

absl::Status CheckReduceScatter(const Communicator& communicator, int64_t input_size,
                                absl::Span<const int64_t> counts, int64_t output_size,
                                const CallOptions& options, std::vector<Part>* parts) {
  LH_RETURN_IF_ERROR(CheckTimeout("reduce-scatter", options));
  LH_RETURN_IF_ERROR(ContiguousParts(counts, parts));
  LH_RETURN_IF_ERROR(ValidateParts(*parts, communicator.size(), input_size));
  const int64_t end = parts->back().offset + parts->back().size;
  if (end != input_size || (*parts)[communicator.rank()].size != output_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "reduce-scatter: counts of ", end, " elements, ", counts[communicator.rank()],
        " for this rank, with an input of ", input_size, " and an output of ", output_size));
  }
  return absl::OkStatus();
}

absl::Status CheckAllGather(const Communicator& communicator, int64_t input_size,
                            absl::Span<const Part> parts, int64_t output_size,
                            const CallOptions& options) {
  LH_RETURN_IF_ERROR(CheckTimeout("all-gather", options));
  LH_RETURN_IF_ERROR(ValidateParts(parts, communicator.size(), output_size));
  if (parts[communicator.rank()].size != input_size) {
    return absl::InvalidArgumentError(absl::StrCat("all-gather: an input of ", input_size,
                                                   " bytes for a part of ",
                                                   parts[communicator.rank()].size));
  }
  return absl::OkStatus();
}

absl::Status CheckBroadcast(const Communicator& communicator, int root,
                            const CallOptions& options) {
  LH_RETURN_IF_ERROR(CheckTimeout("broadcast", options));
  if (root >= 0 && root < communicator.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("broadcast: root ", root, " of ", communicator.size(), " ranks"));
}

absl::Status CheckAllToAll(const Communicator& communicator, int64_t input_size,
                           absl::Span<const Part> send_parts, int64_t output_size,
                           absl::Span<const Part> receive_parts, const CallOptions& options) {
  LH_RETURN_IF_ERROR(CheckTimeout("all-to-all", options));
  LH_RETURN_IF_ERROR(ValidateParts(send_parts, communicator.size(), input_size));
  LH_RETURN_IF_ERROR(ValidateParts(receive_parts, communicator.size(), output_size));
  if (send_parts[communicator.rank()].size != receive_parts[communicator.rank()].size) {
    return absl::InvalidArgumentError("all-to-all: this rank's part for itself has two sizes");
  }
  return absl::OkStatus();
}

absl::StatusOr<int> CheckSplit(const Communicator& communicator, absl::Span<const int> members,
                               const CallOptions& options) {
  LH_RETURN_IF_ERROR(CheckTimeout("split", options));
  std::vector<bool> named(communicator.size());
  int own = -1;
  for (size_t i = 0; i < members.size(); ++i) {
    const int member = members[i];
    if (member < 0 || member >= communicator.size() || named[member]) {
      return absl::InvalidArgumentError(
          absl::StrCat("split: member ", member, " of ", communicator.size(), " ranks",
                       member >= 0 && member < communicator.size() ? " is named twice" : ""));
    }
    named[member] = true;
    if (member == communicator.rank()) own = static_cast<int>(i);
  }
  if (own >= 0) return own;
  return absl::InvalidArgumentError(
      absl::StrCat("split: rank ", communicator.rank(), " is not among the members of its group"));
}

}  // namespace longhaul
