#include "common/config/capabilities.h"

#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/tokenizer_name.h"
#include "common/config/data_sources.h"
#include "common/config/optimizer_kinds.h"

namespace longhaul {
namespace {

constexpr int kTokenBitsOfEarlier = 16;

std::string CodecName(const v1::CodecSpec& codec) {
  return absl::StrCat("codec:", absl::AsciiStrToLower(v1::Codec_Name(codec.codec())));
}

// The name of the member that is set in a oneof, for example "text".
template <typename Message>
std::string MemberName(const char* kind, const Message& message, const char* oneof) {
  const auto* member = message.GetReflection()->GetOneofFieldDescriptor(
      message, Message::descriptor()->FindOneofByName(oneof));
  return absl::StrCat(kind, ":", member == nullptr ? "none" : member->name());
}

// An older program does not see some fields, and would train on other data than the user wants. So
// these fields are needs, too.
void AddDataNeeds(const v1::DataSpec& data, std::set<std::string>& needs) {
  for (const DataSource& of : AllDataSources(data)) {
    const v1::WeightedSource& source = of.source;
    needs.insert(MemberName("data", source, "source"));
    if (source.has_tokens() && source.tokens().format() == v1::LLMC)
      needs.insert(capability::kDataLlmc);
    if (source.tokens().width() > kTokenBitsOfEarlier) needs.insert(capability::kDataWidth);
    // An earlier program encodes control tokens always. It cannot be told what it does not do.
    if (source.text().control_tokens() || source.jsonl().control_tokens())
      needs.insert(capability::kDataControlTokens);
    if (const std::string& tokenizer = TokenizerOfSource(source); !tokenizer.empty()) {
      const bool model = tokenizer == kModelTokenizer, bytes = tokenizer == kByteTokenizer;
      if (model || bytes) needs.insert(capability::kDataNamedTokenizer);
      if (!bytes && !source.has_chat()) needs.insert(capability::kDataSentencepiece);
      if (!bytes && MayBeHfTokenizer(tokenizer)) needs.insert(capability::kDataHfTokenizer);
    }
    if (source.jsonl().null_rows() == v1::JsonlSource::SKIP)
      needs.insert(capability::kDataNullRows);
    if (source.text().has_eos()) needs.insert(capability::kDataEos);
    if (source.text().has_bos() || source.jsonl().has_bos()) needs.insert(capability::kDataBos);
  }
  if (!AllGraphData(data).empty()) needs.insert(capability::kDataGraph);
  if (data.has_mixture()) needs.insert(capability::kDataMixture);
  if (data.separate_documents()) needs.insert(capability::kDataSeparateDocuments);
  if (data.order() == v1::EPOCHS) needs.insert(capability::kDataEpochs);
  if (!data.pools().empty()) needs.insert(capability::kDataPools);
}

}  // namespace

std::vector<std::string> NeedsOf(const v1::JobSpec& spec) {
  std::set<std::string> needs = {MemberName("model", spec.model(), "kind"),
                                 CodecName(spec.sync().up()), CodecName(spec.sync().down())};
  if (spec.sync().mode() == v1::QUORUM) needs.insert(capability::kSyncQuorum);
  // The synthetic model reads no data, has no optimizer and computes nothing.
  if (!spec.model().has_synthetic()) {
    const v1::TransformerSpec& model = spec.model().transformer();
    if (spec.model().graph_sage().has_links()) needs.insert(capability::kModelGraphLinks);
    if (spec.model().has_hf()) needs.insert(capability::kModelHf);
    if (model.has_rope_scaling()) needs.insert(capability::kModelRopeScaling);
    if (model.head_dim() != 0 && model.head_dim() * int64_t{model.heads()} != model.dim())
      needs.insert(capability::kModelHeadDim);
    AddDataNeeds(spec.data(), needs);
    if (HasKeptTokenizer(spec)) needs.insert(capability::kDataKeptTokenizer);
    const v1::PartitionSpec& partition = spec.partition();
    needs.insert(absl::StrCat("partition:", partition.has_map()          ? "map"
                                            : partition.preset().empty() ? "ddp"
                                                                         : partition.preset()));
    const auto six = [](const auto& split) { return split.bits() == 6; };
    if (six(partition.map().weights()) || six(partition.map().secondary()) ||
        six(partition.map().gradients()))
      needs.insert(capability::kPartitionBits6);
    const v1::GradientSplitSpec& gradients = partition.map().gradients();
    if (gradients.error_beta() != 0 || gradients.error_reset_steps() != 0)
      needs.insert(capability::kPartitionErrorAverage);
    if (partition.has_gathers_ahead() && partition.gathers_ahead() != 1)
      needs.insert(capability::kPartitionGathersAhead);
    OptimizerKindOf(spec.inner()).add_needs(spec, needs);
    if (spec.train().accumulation() > 1) needs.insert(capability::kTrainAccumulation);
    if (spec.train().activations() == v1::RECOMPUTE) needs.insert(capability::kTrainRecompute);
    if (spec.train().blocks() == v1::FUSED) needs.insert(capability::kTrainFusedBlocks);
    if (spec.train().cuda_graphs()) needs.insert(capability::kTrainCudaGraphs);
    if (spec.offload().optimizer()) needs.insert(capability::kOffloadOptimizer);
    if (spec.offload().parameters()) needs.insert(capability::kOffloadParameters);
    if (spec.evaluation().beside_training()) needs.insert(capability::kEvaluationBesideTraining);
    const bool bfloat16 = spec.train().precision() == v1::BFLOAT16 ||
                          (spec.train().precision() == v1::PRECISION_UNSPECIFIED &&
                           spec.train().device() == v1::CUDA && !spec.model().has_graph_sage());
    if (spec.model().has_graph_sage() && spec.train().device() == v1::CUDA)
      needs.insert(capability::kTrainCudaSage);
    needs.insert(bfloat16 ? capability::kPrecisionBfloat16 : capability::kPrecisionFloat32);
  }
  return {needs.begin(), needs.end()};
}

}  // namespace longhaul
