#include "worker/rank/fault.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "common/base/utf8.h"
#include "common/config/data_sources.h"

namespace longhaul {
namespace {

// A message may quote a file: any bytes, and any number of them. A report with more, or with
// others, does not arrive (kRankReportBytesMax).
constexpr size_t kFaultMessageBytesMax = 4096;

v1::FaultClass ClassOf(FaultPlace place, const absl::Status& status) {
  const bool among_ranks = place == FaultPlace::kMeeting || place == FaultPlace::kPreparation ||
                           place == FaultPlace::kTraining;
  if (among_ranks && (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
                      absl::IsCancelled(status))) {
    return v1::PEER_FAULT;
  }
  // The other ranks meet in a later generation.
  if (place == FaultPlace::kMeeting && absl::IsAborted(status)) return v1::PEER_FAULT;
  if (place == FaultPlace::kPlan) return v1::COORDINATOR_FAULT;
  // The table of capabilities has each part of it, but not their combination.
  if (place == FaultPlace::kPreparation && absl::IsUnimplemented(status)) return v1::JOB_FAULT;
  return v1::SITE_FAULT;
}

void AddHint(FaultPlace place, const v1::JobSpec& spec, const absl::Status& status,
             v1::JobError& fault) {
  // If there are several sources, the message names the file.
  const std::vector<DataSource> sources = AllDataSources(spec.data());
  const std::string data = sources.size() == 1 ? sources.front().field : "data";
  if (absl::IsResourceExhausted(status)) {
    fault.set_hint("too little memory: give this pool fewer ranks on a machine, or more memory");
    return;
  }
  // The values of the model's files may also be read just before the first step.
  if (absl::StartsWith(status.message(), kHuggingFaceField)) {
    fault.set_field(kHuggingFaceField);
    fault.set_hint(
        absl::IsDataLoss(status)
            ? "the file is damaged on this machine, or was saved so: fetch it again"
            : "the folder is looked up on every worker's machine, absolute or below --data-dir; it "
              "must be whole there, and of the model that the job was submitted with");
    return;
  }
  switch (place) {
    case FaultPlace::kAssignment:
      fault.set_hint("the worker and the coordinator differ in version");
      return;
    case FaultPlace::kCapabilities:
      fault.set_hint("this worker's version cannot do this job; others may");
      return;
    case FaultPlace::kContribution:
      if (absl::IsInvalidArgument(status)) {
        fault.set_hint(
            "the parameters of this pool have become infinite: see its data, or lower the learning "
            "rate (inner)");
      }
      return;
    case FaultPlace::kMeeting:
    case FaultPlace::kPreparation:
      if (absl::StartsWith(status.message(), "partition: ")) {
        fault.set_field("partition");
        fault.set_hint(
            "give every node of this pool as many ranks (an even number, for pairs), or choose "
            "another partition");
        return;
      }
      if (absl::IsFailedPrecondition(status) && spec.train().device() == v1::CUDA) {
        fault.set_field("train.device");
        fault.set_hint("use workers with a GPU for each rank, or train.device: cpu");
        return;
      }
      if (place == FaultPlace::kMeeting) return;
      if (absl::IsNotFound(status) || absl::IsOutOfRange(status) ||
          absl::IsPermissionDenied(status)) {
        fault.set_field(sources.size() != 1
                            ? data
                            : data + (sources.front().source.has_megatron() ? ".prefix" : ".path"));
        fault.set_hint(
            "the path is looked up on every worker's machine; give one that exists there, or set "
            "--data-dir");
      } else if (absl::IsInvalidArgument(status)) {
        fault.set_field(data);
        fault.set_hint(
            "see the message; `longhaul data check` on the pool's machine shows all that is wrong "
            "with "
            "the data");
      }
      return;
    case FaultPlace::kTraining:
      if (absl::IsInvalidArgument(status)) {
        fault.set_hint("see the message: the values of this pool have become infinite");
      }
      return;
    case FaultPlace::kPlan:
      return;
  }
}

}  // namespace

v1::JobError DescribeFault(FaultPlace place, const v1::JobSpec& spec, const absl::Status& status) {
  v1::JobError fault;
  fault.set_code(absl::StatusCodeToString(status.code()));
  fault.set_message(ToUtf8(ClipUtf8(status.message(), kFaultMessageBytesMax)));
  fault.set_fault_class(ClassOf(place, status));
  AddHint(place, spec, status, fault);
  return fault;
}

}  // namespace longhaul
