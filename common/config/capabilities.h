// What a job needs of the programs of its pools, as names of JoinRequest.capabilities.
#pragma once

#include <string>
#include <vector>

#include "longhaul/v1/job.pb.h"

namespace longhaul {

// A capability of coordinators (JoinResponse.capabilities): they take Evaluation.of_pool.
inline constexpr char kPoolEvaluations[] = "evaluation:pools";

// Names of what pools can do, for NeedsOf and for the worker's table (worker/rank/capabilities).
// Those that are made of the contract's own names ("codec:int8", "model:transformer", "data:text",
// "partition:zero3") are not among them.
namespace capability {
inline constexpr char kDataLlmc[] = "data:llmc";
inline constexpr char kDataSentencepiece[] = "data:sentencepiece";
// Also of a tokenizer's folder.
inline constexpr char kDataHfTokenizer[] = "data:hf-tokenizer";
// Sources that name bytes or the model's tokenizer by a word.
inline constexpr char kDataNamedTokenizer[] = "data:named-tokenizer";
inline constexpr char kDataEos[] = "data:eos";
// Of data.text and data.jsonl.
inline constexpr char kDataBos[] = "data:bos";
inline constexpr char kDataControlTokens[] = "data:control-tokens";
// Sources that read by the tokenizer which the coordinator keeps (SyncService.GetTokenizer).
inline constexpr char kDataKeptTokenizer[] = "data:kept-tokenizer";
// data.jsonl.null_rows: SKIP.
inline constexpr char kDataNullRows[] = "data:null-rows";
inline constexpr char kDataWidth[] = "data:width";
inline constexpr char kDataMixture[] = "data:mixture";
inline constexpr char kDataEpochs[] = "data:epochs";
inline constexpr char kDataPools[] = "data:pools";
inline constexpr char kDataSeparateDocuments[] = "data:separate-documents";
inline constexpr char kDataGraph[] = "data:graph";
inline constexpr char kModelGraphLinks[] = "model:graph-links";
inline constexpr char kModelHf[] = "model:hf";
inline constexpr char kModelRopeScaling[] = "model:rope-scaling";
inline constexpr char kModelHeadDim[] = "model:head-dim";
inline constexpr char kPartitionBits6[] = "partition:bits6";
// error_beta and error_reset_steps of gradients.
inline constexpr char kPartitionErrorAverage[] = "partition:error-average";
inline constexpr char kPartitionGathersAhead[] = "partition:gathers-ahead";
inline constexpr char kOptimizerBfloat16Moments[] = "optimizer:bfloat16_moments";
inline constexpr char kTrainAccumulation[] = "train:accumulation";
inline constexpr char kTrainRecompute[] = "train:recompute";
inline constexpr char kTrainFusedBlocks[] = "train:fused-blocks";
inline constexpr char kTrainCudaGraphs[] = "train:cuda-graphs";
// model.graph_sage on device CUDA.
inline constexpr char kTrainCudaSage[] = "train:cuda-graph-sage";
inline constexpr char kOffloadOptimizer[] = "offload:optimizer";
inline constexpr char kOffloadParameters[] = "offload:parameters";
inline constexpr char kEvaluationBesideTraining[] = "evaluation:beside_training";
inline constexpr char kSyncQuorum[] = "sync:quorum";
inline constexpr char kPrecisionBfloat16[] = "precision:bfloat16";
inline constexpr char kPrecisionFloat32[] = "precision:float32";
}  // namespace capability

// Sorted, each once: "codec:e3m0", "data:text", "model:transformer", "partition:ddp",
// "precision:float32". `spec` has every default filled in. The device is not a capability, since it
// has a field of its own.
std::vector<std::string> NeedsOf(const v1::JobSpec& spec);

}  // namespace longhaul
