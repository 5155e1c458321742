#include "common/config/capabilities.h"

#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/config/data_sources.h"

namespace longhaul {
namespace {

std::string CodecName(const v1::CodecSpec& codec) {
  return absl::StrCat("codec:", absl::AsciiStrToLower(v1::Codec_Name(codec.codec())));
}

// The name of the member that a oneof holds, as "text".
template <typename Message>
std::string MemberName(const char* kind, const Message& message, const char* oneof) {
  const auto* member = message.GetReflection()->GetOneofFieldDescriptor(
      message, Message::descriptor()->FindOneofByName(oneof));
  return absl::StrCat(kind, ":", member == nullptr ? "none" : member->name());
}

// Also what an older program would not see: it would train on other data than was asked for.
void AddDataNeeds(const v1::DataSpec& data, std::set<std::string>& needs) {
  for (const DataSource& of : AllDataSources(data)) {
    const v1::WeightedSource& source = of.source;
    needs.insert(MemberName("data", source, "source"));
    if (source.has_tokens() && source.tokens().format() == v1::LLMC) needs.insert("data:llmc");
    if (!source.text().tokenizer().empty() || !source.jsonl().tokenizer().empty())
      needs.insert("data:sentencepiece");
    if (source.text().has_eos()) needs.insert("data:eos");
  }
  if (data.has_mixture()) needs.insert("data:mixture");
  if (data.order() == v1::EPOCHS) needs.insert("data:epochs");
  if (!data.pools().empty()) needs.insert("data:pools");
}

}  // namespace

std::vector<std::string> NeedsOf(const v1::JobSpec& spec) {
  std::set<std::string> needs = {MemberName("model", spec.model(), "kind"),
                                 CodecName(spec.sync().up()), CodecName(spec.sync().down())};
  // The synthetic model reads no data, has no optimizer and computes nothing.
  if (!spec.model().has_synthetic()) {
    const v1::TransformerSpec& model = spec.model().transformer();
    if (spec.model().has_hf()) needs.insert("model:hf");
    if (model.has_rope_scaling()) needs.insert("model:rope-scaling");
    if (model.head_dim() != 0 && model.head_dim() * int64_t{model.heads()} != model.dim())
      needs.insert("model:head-dim");
    AddDataNeeds(spec.data(), needs);
    const v1::PartitionSpec& partition = spec.partition();
    needs.insert(absl::StrCat("partition:", partition.has_map()          ? "map"
                                            : partition.preset().empty() ? "ddp"
                                                                         : partition.preset()));
    const v1::InnerOptimizerSpec& inner = spec.inner();
    if (inner.has_muon()) needs.insert("optimizer:muon");
    if (inner.has_onebit_adam()) needs.insert("optimizer:onebit_adam");
    if ((inner.has_muon() ? inner.muon().adamw() : inner.adamw()).moments() == v1::BFLOAT16)
      needs.insert("optimizer:bfloat16_moments");
    if (spec.train().accumulation() > 1) needs.insert("train:accumulation");
    if (spec.train().activations() == v1::RECOMPUTE) needs.insert("train:recompute");
    if (spec.train().blocks() == v1::FUSED) needs.insert("train:fused-blocks");
    if (spec.offload().optimizer()) needs.insert("offload:optimizer");
    if (spec.offload().parameters()) needs.insert("offload:parameters");
    const bool bfloat16 = spec.train().precision() == v1::BFLOAT16 ||
                          (spec.train().precision() == v1::PRECISION_UNSPECIFIED &&
                           spec.train().device() == v1::CUDA);
    needs.insert(bfloat16 ? "precision:bfloat16" : "precision:float32");
  }
  return {needs.begin(), needs.end()};
}

}  // namespace longhaul
