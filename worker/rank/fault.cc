#include "worker/rank/fault.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status_hint.h"
#include "common/base/status_marks.h"
#include "common/base/tokenizer_name.h"
#include "common/base/utf8.h"
#include "common/config/data_sources.h"

namespace longhaul {
namespace {

// A message may quote a file: any bytes, and any number of them. A report with more, or with
// others, does not arrive (kRankReportBytesMax).
constexpr size_t kFaultMessageBytesMax = 4096;

v1::FaultClass ClassOf(FaultOrigin origin, const absl::Status& status) {
  if (origin == FaultOrigin::kPlan) return v1::COORDINATOR_FAULT;
  if (IsPeerFault(status)) return v1::PEER_FAULT;
  // A meeting waits for the other ranks alone. ABORTED: they meet in a later generation. NOT_FOUND:
  // node 0 has not begun this one.
  if (origin == FaultOrigin::kMeeting &&
      (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
       absl::IsCancelled(status) || absl::IsAborted(status) || absl::IsNotFound(status))) {
    return v1::PEER_FAULT;
  }
  // The table of capabilities has each part of it, but not their combination.
  if (origin == FaultOrigin::kPreparation && absl::IsUnimplemented(status)) return v1::JOB_FAULT;
  return v1::SITE_FAULT;
}

// What the user can change in the spec, or at the site.
struct Advice {
  std::string field, hint;
};

// The sources' field. If there are several sources, the message names the file.
std::string DataField(const std::vector<DataSource>& sources) {
  return sources.size() == 1 ? sources.front().field : "data";
}

std::string AdviceOfGraph(const absl::Status& status) {
  if (absl::IsNotFound(status))
    return "the path is looked up on every worker's machine, absolute or below --data-dir; it is a "
           "folder that `longhaul graph import` made there";
  if (const std::string hint = HintIn(status); !hint.empty()) return hint;
  return "all pools' graphs must have the columns and classes of the job; `longhaul graph info "
         "FOLDER` prints what a graph has";
}

// For errors that say which field of the spec they are about.
std::optional<Advice> AdviceByField(const v1::JobSpec& spec, const absl::Status& status) {
  const std::string field = FieldOf(status);
  if (field.empty()) return std::nullopt;
  if (field == kHuggingFaceField) {
    return Advice{
        kHuggingFaceField,
        absl::IsDataLoss(status)
            ? "the file is damaged on this machine or was saved damaged: download it again"
            : "the folder is looked up on every worker's machine, absolute or below --data-dir; it "
              "must be complete there and contain the model that the job was submitted with"};
  }
  if (field == kSyntheticField) return Advice{field, "use pools of one rank, or model.transformer"};
  if (field == kDataMayChangeField) {
    return Advice{DataField(AllDataSources(spec.data())),
                  "restore the data with which this pool started the job, or name another pool for "
                  "it; data.may_change of the spec lets a pool restart with other data"};
  }
  for (const GraphData& graph : AllGraphData(spec.data())) {
    if (graph.field == field) return Advice{field, AdviceOfGraph(status)};
  }
  if (field == "partition") {
    return Advice{
        field,
        "give every node of this pool as many ranks (an even number, for pairs), or choose "
        "another partition"};
  }
  if (field == "data" && spec.model().has_graph_sage()) {
    return Advice{field, "give every node of this pool the same folder of the graph"};
  }
  if (field == "data") {
    return Advice{DataField(AllDataSources(spec.data())),
                  "give every node of this pool the same files; `longhaul data check` on each node "
                  "tells how many tokens it has"};
  }
  // What takes memory.
  return Advice{field, "give this pool more nodes, fewer ranks on a node, or more memory"};
}

Advice AdviceOfPreparation(const v1::JobSpec& spec, const absl::Status& status) {
  const std::vector<DataSource> sources = AllDataSources(spec.data());
  const std::string data = DataField(sources);
  if (IsOfTokenizer(status)) {
    const std::vector<std::string> of_model = SourcesWithTokenizer(spec.data(), kModelTokenizer);
    if (!of_model.empty()) {
      if (HasKeptTokenizer(spec)) {
        return {of_model.size() == 1 ? of_model.front() : data,
                "the coordinator keeps this tokenizer; a tokenizer.json needs python3 with the "
                "packages tokenizers and longhaul on the pool's machines; or name another "
                "tokenizer, or 'bytes'"};
      }
      return {of_model.size() == 1 ? of_model.front() : data,
              "the folder of model.hf must have the model's tokenizer.json or tokenizer.model at "
              "each site, with its tokenizer_config.json; or name another tokenizer, or 'bytes'"};
    }
    return {sources.size() == 1 ? data + ".tokenizer" : data,
            "the tokenizer is looked up on every worker's machine, absolute or below --data-dir; "
            "`longhaul data check PATH --tokenizer FILE` tries it there"};
  }
  if (absl::IsNotFound(status) || absl::IsOutOfRange(status) || absl::IsPermissionDenied(status)) {
    return {sources.size() != 1
                ? data
                : data + (sources.front().source.has_megatron() ? ".prefix" : ".path"),
            "the path is looked up on every worker's machine, absolute or below --data-dir; give "
            "one that exists there"};
  }
  if (!absl::IsInvalidArgument(status)) return {};
  return {data,
          "see the message; `longhaul data check` on the pool's machine shows every problem of the "
          "data"};
}

// For other messages, by what the rank was doing.
Advice AdviceByOrigin(FaultOrigin origin, const v1::JobSpec& spec, const absl::Status& status) {
  switch (origin) {
    case FaultOrigin::kAssignment:
      return {"", "the worker and the coordinator differ in version"};
    case FaultOrigin::kCapabilities:
      return {"", "this worker's version cannot run this job; other versions may"};
    case FaultOrigin::kContribution:
      if (!absl::IsInvalidArgument(status)) return {};
      return {"",
              "the parameters of this pool have become infinite: see its data, or lower the "
              "learning rate (inner)"};
    case FaultOrigin::kMeeting:
    case FaultOrigin::kPreparation:
      if (absl::IsFailedPrecondition(status) && spec.train().device() == v1::CUDA)
        return {"train.device", "use workers with a GPU for each rank, or train.device: cpu"};
      return origin == FaultOrigin::kMeeting ? Advice() : AdviceOfPreparation(spec, status);
    case FaultOrigin::kTraining:
      // Of a device; of reading data.
      if (absl::IsDeadlineExceeded(status) || absl::IsAborted(status))
        return {"", "a device of this machine does not respond: see its kernel log"};
      if (!absl::IsInvalidArgument(status)) return {};
      return {"", "see the message: the values of this pool have become infinite"};
    case FaultOrigin::kPlan:
      return {};
  }
  return {};
}

Advice AdviceFor(FaultOrigin origin, const v1::JobSpec& spec, const absl::Status& status) {
  if (absl::IsResourceExhausted(status)) {
    return {"", "too little memory: give this pool fewer ranks on a machine, or more memory"};
  }
  if (std::optional<Advice> advice = AdviceByField(spec, status)) return *std::move(advice);
  return AdviceByOrigin(origin, spec, status);
}

}  // namespace

v1::JobError DescribeFault(FaultOrigin origin, const v1::JobSpec& spec,
                           const absl::Status& status) {
  v1::JobError fault;
  fault.set_code(absl::StatusCodeToString(status.code()));
  fault.set_message(ToUtf8(ClipUtf8(status.message(), kFaultMessageBytesMax)));
  fault.set_fault_class(ClassOf(origin, status));
  const Advice advice = AdviceFor(origin, spec, status);
  if (!advice.field.empty()) fault.set_field(advice.field);
  if (!advice.hint.empty()) fault.set_hint(advice.hint);
  return fault;
}

}  // namespace longhaul
