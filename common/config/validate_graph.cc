#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/config/checks.h"
#include "common/config/data_sources.h"
#include "common/config/validate.h"
#include "common/io/sha256.h"

namespace longhaul {
namespace {

// 1 TiB.
constexpr int64_t kCacheMibMax = int64_t{1} << 20;

void RequireGraph(const std::string& field, const std::string& source, ViolationList& violations) {
  violations.Invalid(absl::StrCat(field, ".", source), "model.graph_sage reads a graph",
                     absl::StrCat("set ", field,
                                  ".graph.path to a folder that `longhaul graph "
                                  "import` made"));
}

// The name of the source that is set in the oneof of `holder`, unless it is a graph.
template <typename Holder>
std::string OtherSourceOf(const Holder& holder) {
  const auto* const member = holder.GetReflection()->GetOneofFieldDescriptor(
      holder, Holder::descriptor()->FindOneofByName("source"));
  return member == nullptr || holder.has_graph() ? "" : std::string(member->name());
}

void ValidateGraphSource(const GraphData& of, bool links, bool cuda, ViolationList& violations) {
  RequirePath(violations, of.field + ".path", of.source.path());
  RequireInteger(violations, of.field + ".cache_mib", of.source.cache_mib(), 0, kCacheMibMax);
  const v1::GraphSource::Access access = of.source.access();
  const bool by_device = access == v1::GraphSource::DEVICE || access == v1::GraphSource::ZERO_COPY;
  if (by_device && !cuda) {
    violations.Invalid(of.field + ".access", "needs train.device: cuda, whose memory or link it is",
                       "set that, or use auto, host or mapped");
  }
  const bool caches = of.source.cache_mib() != 0;
  if (caches && !cuda) {
    violations.Invalid(of.field + ".cache_mib", "needs train.device: cuda, which keeps these rows",
                       "set that, or omit it");
  } else if (caches && access == v1::GraphSource::DEVICE) {
    violations.Invalid(of.field + ".cache_mib", "the device has all rows (access: device)",
                       "omit one of them");
  }
  if (links && of.source.edges() == v1::GraphSource::TRAINING) {
    violations.Invalid(of.field + ".edges",
                       "model.graph_sage.links trains on pairs, not on training nodes",
                       "omit it: the import leaves validation and test pairs out of the edges");
  }
}

void ValidateGraphData(const v1::DataSpec& data, ViolationList& violations) {
  if (const std::string other = OtherSourceOf(data); !other.empty())
    RequireGraph("data", other, violations);
  for (int i = 0; i < data.pools_size(); ++i) {
    if (const std::string other = OtherSourceOf(data.pools(i)); !other.empty())
      RequireGraph(absl::StrCat("data.pools[", i, "]"), other, violations);
  }
  if (data.order() == v1::DRAWS) {
    violations.Invalid("data.order", "found draws, expected epochs: graphs are read in epochs",
                       "omit it");
  }
  if (data.eval_fraction() != 0) {
    violations.Invalid("data.eval_fraction", "a graph has validation nodes instead",
                       "omit it, and import the graph with --valid, or for links --valid-pairs");
  }
  if (data.separate_documents())
    violations.Invalid("data.separate_documents", "a graph has no documents", "omit it");
  if (!data.model_tokenizer().empty())
    violations.Invalid("data.model_tokenizer", "a graph has no tokens", "omit it");
  if (!data.model_chat_template().empty())
    violations.Invalid("data.model_chat_template", "a graph has no chat", "omit it");
  if (!data.graph_schema().empty() && !IsSha256Hex(data.graph_schema())) {
    violations.Invalid("data.graph_schema",
                       "expected a SHA-256 in 64 lower-case hexadecimal digits",
                       "`longhaul graph info` prints the schema digest");
  }
}

void ValidateGraphTrain(const v1::JobSpec& spec, ViolationList& violations) {
  if (spec.train().precision() == v1::BFLOAT16) {
    violations.NotBuilt("train.precision", "graphs are not trained in bfloat16 yet",
                        "use float32, or omit it");
  }
  if (spec.train().cuda_graphs()) {
    violations.Invalid("train.cuda_graphs",
                       "batches of a graph differ in size, and a recorded pass has one size",
                       "omit it");
  }
  if (spec.train().blocks() == v1::FUSED) {
    violations.NotBuilt("train.blocks", "fused blocks are built for transformers alone",
                        "use auto, or omit it");
  }
  if (spec.inner().has_muon() && spec.model().graph_sage().fanout_size() == 1 &&
      !spec.model().graph_sage().has_links()) {
    violations.Invalid("inner.muon",
                       "a model of one layer has no hidden matrix, which Muon updates",
                       "use inner.adamw, or two layers");
  }
}

}  // namespace

void ValidateGraph(const v1::JobSpec& spec, ViolationList& violations) {
  for (const GraphData& of : AllGraphData(spec.data())) {
    ValidateGraphSource(of, spec.model().graph_sage().has_links(),
                        spec.train().device() == v1::CUDA, violations);
    if (spec.model().kind_case() == v1::ModelSpec::KIND_NOT_SET || spec.model().has_graph_sage())
      continue;
    violations.Invalid(of.field, "only model.graph_sage reads a graph",
                       "set model.graph_sage, or another source of data");
  }
  if (spec.model().has_graph_sage()) {
    ValidateGraphData(spec.data(), violations);
    ValidateGraphTrain(spec, violations);
  } else if (!spec.data().graph_schema().empty()) {
    violations.Invalid("data.graph_schema", "only model.graph_sage reads a graph", "omit it");
  }
}

}  // namespace longhaul
