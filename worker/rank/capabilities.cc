#include "worker/rank/capabilities.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/codec/codec.h"
#include "common/config/capabilities.h"
#include "common/config/optimizer_kinds.h"

namespace longhaul {
namespace {

constexpr const char* kAnywhere[] = {
    "model:transformer",
    "model:synthetic",
    "model:graph_sage",
    "data:text",
    "data:tokens",
    "partition:ddp",
    "partition:zero1",
    "partition:zero2",
    "partition:zero3",
    "partition:zeropp",
    "partition:frontier3",
    "partition:map",
    capability::kTrainAccumulation,
    capability::kTrainRecompute,
    capability::kPrecisionFloat32,
    capability::kPrecisionBfloat16,
    capability::kOffloadOptimizer,
    capability::kOffloadParameters,
    "data:jsonl",
    "data:megatron",
    "data:chat",
    capability::kDataMixture,
    capability::kDataGraph,
    capability::kDataLlmc,
    capability::kDataSentencepiece,
    capability::kDataHfTokenizer,
    capability::kDataNamedTokenizer,
    capability::kDataEos,
    capability::kDataNullRows,
    capability::kDataKeptTokenizer,
    capability::kDataBos,
    capability::kDataEpochs,
    capability::kDataPools,
    capability::kModelGraphLinks,
    capability::kModelHf,
    capability::kModelRopeScaling,
    capability::kModelHeadDim,
    capability::kPartitionBits6,
    capability::kPartitionErrorAverage,
    capability::kPartitionGathersAhead,
    capability::kDataSeparateDocuments,
    capability::kSyncQuorum,
    capability::kDataControlTokens,
    capability::kDataWidth,
};
constexpr const char* kOnCpu[] = {capability::kOptimizerBfloat16Moments,
                                  capability::kTrainFusedBlocks,
                                  capability::kEvaluationBesideTraining};
constexpr const char* kOnCuda[] = {capability::kTrainCudaGraphs, capability::kTrainCudaSage};

}  // namespace

std::vector<std::string> CapabilitiesOn(v1::Device device) {
  std::vector<std::string> result(std::begin(kAnywhere), std::end(kAnywhere));
  for (const CodecRow& codec : kCodecs)
    result.push_back(absl::StrCat("codec:", std::string(codec.name)));
  for (const OptimizerKind& kind : OptimizerKinds()) {
    if (kind.on_cuda || device == v1::CPU)
      result.insert(result.end(), kind.capabilities.begin(), kind.capabilities.end());
  }
  if (device == v1::CPU) result.insert(result.end(), std::begin(kOnCpu), std::end(kOnCpu));
  if (device == v1::CUDA) result.insert(result.end(), std::begin(kOnCuda), std::end(kOnCuda));
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

std::string SlowComputing(const v1::JobSpec& spec, bool fast_bf16) {
  if (!spec.model().has_transformer() || spec.train().device() == v1::CUDA ||
      spec.train().precision() != v1::BFLOAT16 || fast_bf16) {
    return "";
  }
  return "train.precision: this CPU does not multiply bfloat16 (AVX512-BF16), so that it is slower "
         "than float32 here";
}

}  // namespace longhaul
