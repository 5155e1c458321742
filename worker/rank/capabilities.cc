#include "worker/rank/capabilities.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/config/capabilities.h"

namespace longhaul {
namespace {

constexpr const char* kAnywhere[] = {
    "model:transformer",  "model:synthetic",     "data:text",          "data:tokens",
    "partition:ddp",      "partition:zero1",     "partition:zero2",    "partition:zero3",
    "partition:zeropp",   "partition:frontier3", "partition:map",      "train:accumulation",
    "train:recompute",    "optimizer:muon",      "codec:fp32",         "codec:bf16",
    "codec:e3m0",         "codec:int8",          "codec:int4",         "codec:sign1",
    "codec:topk2",        "precision:float32",   "precision:bfloat16", "offload:optimizer",
    "offload:parameters", "data:jsonl",          "data:megatron",      "data:mixture",
    "data:llmc",          "data:sentencepiece",  "data:eos",           "data:epochs",
    "data:pools",
    "model:hf",           "model:rope-scaling",  "model:head-dim",
};
constexpr const char* kOnCpu[] = {"optimizer:bfloat16_moments", "optimizer:onebit_adam",
                                  "train:fused-blocks"};

}  // namespace

std::vector<std::string> CapabilitiesOn(v1::Device device) {
  std::vector<std::string> result(std::begin(kAnywhere), std::end(kAnywhere));
  if (device == v1::CPU) result.insert(result.end(), std::begin(kOnCpu), std::end(kOnCpu));
  return result;
}

absl::Status CheckCapabilities(const v1::JobSpec& spec, v1::Device device) {
  const std::vector<std::string> here = CapabilitiesOn(device);
  std::vector<std::string> lacking;
  for (std::string& need : NeedsOf(spec)) {
    if (!absl::c_linear_search(here, need)) lacking.push_back(std::move(need));
  }
  if (lacking.empty()) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("this worker lacks ", absl::StrJoin(lacking, ", ")));
}

}  // namespace longhaul
