#include "common/config/data_sources.h"

#include "absl/strings/str_cat.h"
#include "common/base/tokenizer_name.h"

namespace longhaul {
namespace {

// `Holder` is a message whose oneof `source` has the members text, tokens, jsonl, megatron and
// chat.
template <typename Holder>
void AppendSource(const std::string& path, const Holder& holder, double weight,
                  std::vector<DataSource>& sources) {
  DataSource found;
  if (holder.has_text()) {
    found.field = path + ".text";
    *found.source.mutable_text() = holder.text();
  } else if (holder.has_tokens()) {
    found.field = path + ".tokens";
    *found.source.mutable_tokens() = holder.tokens();
  } else if (holder.has_jsonl()) {
    found.field = path + ".jsonl";
    *found.source.mutable_jsonl() = holder.jsonl();
  } else if (holder.has_megatron()) {
    found.field = path + ".megatron";
    *found.source.mutable_megatron() = holder.megatron();
  } else if (holder.has_chat()) {
    found.field = path + ".chat";
    *found.source.mutable_chat() = holder.chat();
  } else {
    return;
  }
  found.source.set_weight(weight);
  sources.push_back(std::move(found));
}

template <typename Holder>
void AppendSources(const std::string& path, const Holder& holder,
                   std::vector<DataSource>& sources) {
  if (!holder.has_mixture()) return AppendSource(path, holder, 1, sources);
  for (int i = 0; i < holder.mixture().sources_size(); ++i) {
    const v1::WeightedSource& source = holder.mixture().sources(i);
    AppendSource(absl::StrCat(path, ".mixture.sources[", i, "]"), source,
                 source.has_weight() ? source.weight() : 1, sources);
  }
}

template <typename Holder>
void FillSource(Holder& holder) {
  if (holder.has_jsonl() && holder.jsonl().field().empty())
    holder.mutable_jsonl()->set_field("text");
  if (holder.has_tokens() && holder.tokens().format() == v1::TOKEN_FORMAT_UNSPECIFIED)
    holder.mutable_tokens()->set_format(v1::NANOGPT);
}

template <typename Holder>
void FillTokenizer(Holder& holder) {
  if (holder.has_text() && holder.text().tokenizer().empty())
    holder.mutable_text()->set_tokenizer(kModelTokenizer);
  if (holder.has_jsonl() && holder.jsonl().tokenizer().empty())
    holder.mutable_jsonl()->set_tokenizer(kModelTokenizer);
  if (holder.has_chat() && holder.chat().tokenizer().empty())
    holder.mutable_chat()->set_tokenizer(kModelTokenizer);
}

template <typename Holder>
void FillTokenizersOf(Holder& holder) {
  FillTokenizer(holder);
  if (!holder.has_mixture()) return;
  for (v1::WeightedSource& source : *holder.mutable_mixture()->mutable_sources())
    FillTokenizer(source);
}

template <typename Holder>
void FillSources(Holder& holder) {
  FillSource(holder);
  if (holder.has_graph()) {
    v1::GraphSource& graph = *holder.mutable_graph();
    if (graph.edges() == v1::GraphSource::EDGES_UNSPECIFIED) graph.set_edges(v1::GraphSource::ALL);
    if (graph.access() == v1::GraphSource::ACCESS_UNSPECIFIED)
      graph.set_access(v1::GraphSource::AUTO);
  }
  if (!holder.has_mixture()) return;
  for (v1::WeightedSource& source : *holder.mutable_mixture()->mutable_sources()) {
    if (!source.has_weight()) source.set_weight(1);
    FillSource(source);
  }
}

}  // namespace

std::vector<DataSource> AllDataSources(const v1::DataSpec& data) {
  std::vector<DataSource> sources;
  AppendSources("data", data, sources);
  for (int i = 0; i < data.pools_size(); ++i)
    AppendSources(absl::StrCat("data.pools[", i, "]"), data.pools(i), sources);
  return sources;
}

std::vector<DataSource> DataSourcesOf(const v1::DataSpec& data, absl::string_view pool) {
  std::vector<DataSource> sources;
  for (int i = 0; i < data.pools_size() && sources.empty(); ++i) {
    if (data.pools(i).pool() == pool)
      AppendSources(absl::StrCat("data.pools[", i, "]"), data.pools(i), sources);
  }
  if (sources.empty()) AppendSources("data", data, sources);
  return sources;
}

std::vector<GraphData> AllGraphData(const v1::DataSpec& data) {
  std::vector<GraphData> graphs;
  if (data.has_graph()) graphs.push_back({"data.graph", data.graph()});
  for (int i = 0; i < data.pools_size(); ++i) {
    if (data.pools(i).has_graph())
      graphs.push_back({absl::StrCat("data.pools[", i, "].graph"), data.pools(i).graph()});
  }
  return graphs;
}

GraphData GraphDataOf(const v1::DataSpec& data, absl::string_view pool) {
  for (int i = 0; i < data.pools_size(); ++i) {
    if (data.pools(i).pool() == pool && data.pools(i).has_graph())
      return {absl::StrCat("data.pools[", i, "].graph"), data.pools(i).graph()};
  }
  return {"data.graph", data.graph()};
}

void FillDataSources(v1::DataSpec& data) {
  FillSources(data);
  for (v1::PoolData& pool : *data.mutable_pools()) FillSources(pool);
}

const std::string& TokenizerOfSource(const v1::WeightedSource& source) {
  if (source.has_chat()) return source.chat().tokenizer();
  return source.has_jsonl() ? source.jsonl().tokenizer() : source.text().tokenizer();
}

bool ReadsModelTemplate(const v1::WeightedSource& source) {
  return source.has_chat() && source.chat().tokenizer() == kModelTokenizer &&
         source.chat().chat_template().empty();
}

std::vector<std::string> SourcesWithTokenizer(const v1::DataSpec& data,
                                              absl::string_view tokenizer) {
  std::vector<std::string> fields;
  for (const DataSource& of : AllDataSources(data)) {
    const v1::WeightedSource& source = of.source;
    if ((source.has_text() || source.has_jsonl() || source.has_chat()) &&
        TokenizerOfSource(source) == tokenizer)
      fields.push_back(of.field + ".tokenizer");
  }
  return fields;
}

void NameModelTokenizer(v1::DataSpec& data) {
  FillTokenizersOf(data);
  for (v1::PoolData& pool : *data.mutable_pools()) FillTokenizersOf(pool);
}

void FillTokenizers(v1::JobSpec& spec) {
  if (spec.model().has_hf() && spec.has_data()) NameModelTokenizer(*spec.mutable_data());
}

bool HasKeptTokenizer(const v1::JobSpec& spec) {
  return !spec.model().has_hf() && spec.init().source_case() != v1::InitSpec::SOURCE_NOT_SET &&
         !SourcesWithTokenizer(spec.data(), kModelTokenizer).empty();
}

}  // namespace longhaul
