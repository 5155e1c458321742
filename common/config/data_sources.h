// The sources of data that a job names, wherever in its DataSpec they are.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul {

struct DataSource {
  std::string field;          // "data.text", "data.pools[0].mixture.sources[1].jsonl".
  v1::WeightedSource source;  // Weight 1 outside a mixture.
};

// Of everybody. What is no source (graph, none) is left out.
std::vector<DataSource> AllDataSources(const v1::DataSpec& data);
// Of the pool of that name: what data.pools gives it, else what all others read.
std::vector<DataSource> DataSourcesOf(const v1::DataSpec& data, absl::string_view pool);

// Defaults inside the sources.
void FillDataSources(v1::DataSpec& data);

}  // namespace longhaul
