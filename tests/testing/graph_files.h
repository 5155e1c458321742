// A small graph's folder for tests, and its arrays changed by hand.
#pragma once

#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/base/check.h"
#include "common/graph/graph_writer.h"
#include "common/io/posix_filesystem.h"

namespace longhaul::testing_support {

// What a folder is written from.
struct GraphContent {
  GraphManifest manifest;
  std::vector<int64_t> indptr;
  std::vector<int64_t> sources;
  bool wide = false;
  std::vector<float> features;
  std::vector<int32_t> labels;
  std::vector<int64_t> train, valid, test;
  // Source, target, and so on.
  std::vector<int64_t> train_pairs, valid_pairs, test_pairs;
};

// A ring: node v has the one in-edge v - 1, the last one to 0. features[v, c] = v + c / 16.
inline GraphContent RingGraph(int64_t nodes, int64_t columns) {
  GraphContent graph;
  graph.manifest.nodes = nodes;
  graph.manifest.columns = columns;
  graph.manifest.classes = 2;
  graph.indptr.push_back(0);
  for (int64_t v = 0; v < nodes; ++v) {
    graph.sources.push_back((v + nodes - 1) % nodes);
    graph.indptr.push_back(v + 1);
    for (int64_t c = 0; c < columns; ++c)
      graph.features.push_back(static_cast<float>(v) + static_cast<float>(c) / 16);
    graph.labels.push_back(static_cast<int32_t>(v % 2));
    (v % 3 == 0 ? graph.train : v % 3 == 1 ? graph.valid : graph.test).push_back(v);
  }
  return graph;
}

template <typename T>
absl::Span<const T> SpanOf(const std::vector<T>& values) {
  return values;
}

// The counts of the manifest follow from the arrays. Stops if the folder cannot be written.
inline void WriteGraph(GraphContent graph, const std::string& path) {
  const auto fs = MakePosixFileSystem();
  auto writer = GraphWriter::Create(fs.get(), path).value();
  const auto put = [&](const char* name, NpyType type, auto values) {
    if (values.empty()) return;
    LH_CHECK(writer.WriteArray(name, type, values).ok(), "the disk has room");
  };
  put("indptr", NpyType::kInt64, SpanOf(graph.indptr));
  writer.StartArray("indices", graph.wide ? NpyType::kInt64 : NpyType::kInt32);
  if (graph.wide) {
    LH_CHECK(writer.Append(SpanOf(graph.sources)).ok(), "the disk has room");
  } else {
    const std::vector<int32_t> narrow(graph.sources.begin(), graph.sources.end());
    LH_CHECK(writer.Append(SpanOf(narrow)).ok(), "the disk has room");
  }
  GraphManifest& manifest = graph.manifest;
  manifest.edges = static_cast<int64_t>(graph.sources.size());
  LH_CHECK(writer.EndArray({manifest.edges}).ok(), "the disk has room");
  writer.StartArray("features", NpyType::kFloat32);
  LH_CHECK(writer.Append(SpanOf(graph.features)).ok(), "the disk has room");
  LH_CHECK(writer.EndArray({manifest.nodes, manifest.columns}).ok(), "the disk has room");
  put("labels", NpyType::kInt32, SpanOf(graph.labels));
  put("train", NpyType::kInt64, SpanOf(graph.train));
  put("valid", NpyType::kInt64, SpanOf(graph.valid));
  put("test", NpyType::kInt64, SpanOf(graph.test));
  const auto put_pairs = [&](const char* name, const std::vector<int64_t>& ends, int64_t& count) {
    count = static_cast<int64_t>(ends.size()) / 2;
    if (count == 0) return;
    writer.StartArray(name, NpyType::kInt64);
    LH_CHECK(writer.Append(SpanOf(ends)).ok(), "the disk has room");
    LH_CHECK(writer.EndArray({count, 2}).ok(), "the disk has room");
  };
  put_pairs("train_pairs", graph.train_pairs, manifest.train_pairs);
  put_pairs("valid_pairs", graph.valid_pairs, manifest.valid_pairs);
  put_pairs("test_pairs", graph.test_pairs, manifest.test_pairs);
  manifest.labelled = std::count_if(graph.labels.begin(), graph.labels.end(),
                                    [](int32_t label) { return label >= 0; });
  manifest.train = static_cast<int64_t>(graph.train.size());
  manifest.valid = static_cast<int64_t>(graph.valid.size());
  manifest.test = static_cast<int64_t>(graph.test.size());
  const auto finished = writer.Finish(manifest);
  LH_CHECK(finished.ok(), finished.status().ToString().c_str());
}

}  // namespace longhaul::testing_support
