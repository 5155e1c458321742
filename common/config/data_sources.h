// The sources of data that a job names, anywhere in its DataSpec.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul {

struct DataSource {
  // For example "data.text" or "data.pools[0].mixture.sources[1].jsonl".
  std::string field;
  // The weight is 1 outside a mixture.
  v1::WeightedSource source;
};

// All sources. Graphs are left out.
std::vector<DataSource> AllDataSources(const v1::DataSpec& data);
// The sources of the pool with that name: those in data.pools, otherwise those of all pools.
std::vector<DataSource> DataSourcesOf(const v1::DataSpec& data, absl::string_view pool);

struct GraphData {
  // "data.graph" or "data.pools[0].graph".
  std::string field;
  v1::GraphSource source;
};
// All graphs.
std::vector<GraphData> AllGraphData(const v1::DataSpec& data);
// The graph of the pool with that name: the one in data.pools, otherwise that of all pools.
GraphData GraphDataOf(const v1::DataSpec& data, absl::string_view pool);

// Fills in the defaults inside the sources.
void FillDataSources(v1::DataSpec& data);

// The tokenizer that a source of text, JSONL or chat names; otherwise empty.
const std::string& TokenizerOfSource(const v1::WeightedSource& source);

// The fields of the sources of text, JSONL and chat that read by `tokenizer`, for example
// "data.jsonl.tokenizer". Empty: those that name none.
std::vector<std::string> SourcesWithTokenizer(const v1::DataSpec& data,
                                              absl::string_view tokenizer);

// Whether it is chat that the chat template of the folder of model.hf renders.
bool ReadsModelTemplate(const v1::WeightedSource& source);

// Text, JSONL and chat that name no tokenizer get the model's.
void NameModelTokenizer(v1::DataSpec& data);

// Whether sources read by the tokenizer of what the job begins with (`init`), which the coordinator
// keeps for the pools.
bool HasKeptTokenizer(const v1::JobSpec& spec);

// With model.hf, text, JSONL and chat that name no tokenizer get the model's. Only for a spec that
// is submitted: a stored spec without a tokenizer means bytes, as it did when it was stored.
void FillTokenizers(v1::JobSpec& spec);

}  // namespace longhaul
