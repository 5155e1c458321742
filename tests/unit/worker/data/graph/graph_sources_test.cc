#include "worker/data/graph/graph_sources.h"

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_hint.h"
#include "common/graph/graph_folder.h"
#include "common/io/posix_filesystem.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/number_files.h"
#include "tests/testing/temp_dir.h"
#include "worker/data/graph/zip_member.h"

namespace longhaul {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_support::Gzipped;
using testing_support::NpyBytes;
using testing_support::WriteBytes;
using testing_support::WriteNpy;
using testing_support::ZipFile;

class GraphSourcesTest : public ::testing::Test {
 protected:
  void Put(const std::string& name, const std::string& bytes) {
    const std::string path = dir_.Join(name);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    WriteBytes(path, bytes);
  }
  void PutSplit() {
    Put("split/time/train.csv.gz", Gzipped("0\n"));
    Put("split/time/valid.csv.gz", Gzipped("1\n"));
    Put("split/time/test.csv.gz", Gzipped("2\n"));
  }
  void PutOgbCsv() {
    PutSplit();
    Put("raw/edge.csv.gz", Gzipped("0,1\n1,2\n"));
    Put("raw/num-node-list.csv.gz", Gzipped("4\n"));
    Put("raw/num-edge-list.csv.gz", Gzipped("2\n"));
    Put("raw/node-feat.csv.gz", Gzipped("0.5,1\n1,1\n2,1\n3,1\n"));
    Put("raw/node-label.csv.gz", Gzipped("0\n1\n0\n1\n"));
  }
  // Imports, and expects the edges 0 -> 1, 1 -> 2 of four nodes.
  GraphManifest Import(absl::StatusOr<GraphImport> import) {
    EXPECT_TRUE(import.ok()) << import.status();
    if (!import.ok()) return {};
    import->out = dir_.Join(absl::StrCat("out", ++outs_));
    const auto result = ImportGraph(*fs_, *import);
    EXPECT_TRUE(result.ok()) << result.status();
    const auto folder = GraphFolder::Open(import->out);
    EXPECT_TRUE(folder.ok()) << folder.status();
    if (!folder.ok()) return {};
    EXPECT_THAT(folder->edges().indptr, ElementsAre(0, 0, 1, 2, 2));
    EXPECT_THAT(folder->train(), ElementsAre(0));
    EXPECT_EQ(folder->features()[0], 0.5F);
    return folder->manifest();
  }
  void ExpectRefused(const absl::StatusOr<GraphImport>& import, const std::string& message) {
    EXPECT_THAT(import.status().message(), HasSubstr(message));
    EXPECT_NE(HintIn(import.status()), "");
  }
  absl::StatusOr<GraphImport> Bolt(const std::string& yaml, const std::string& feature = "") {
    return ParseGraphBolt(dir_.path(), yaml, "", feature);
  }

  TempDir dir_;
  std::unique_ptr<FileSystem> fs_ = MakePosixFileSystem();
  int outs_ = 0;
};

TEST_F(GraphSourcesTest, ReadsOgbAsCsv) {
  PutOgbCsv();
  EXPECT_EQ(Import(FindOgbGraph(dir_.path(), "")).labelled, 4);
  EXPECT_EQ(Import(FindOgbGraph(dir_.path(), "time")).test, 1);
  Put("split/other/train.csv.gz", "");
  ExpectRefused(FindOgbGraph(dir_.path(), ""), "several splits: other, time");
  ExpectRefused(FindOgbGraph(dir_.path(), "other"), "valid.csv.gz does not exist");
  Put("split/torch/split_dict.pt", "PK\x03\x04");
  ExpectRefused(FindOgbGraph(dir_.path(), "torch"), "a file of PyTorch");
  std::filesystem::remove(dir_.Join("raw/node-feat.csv.gz"));
  ExpectRefused(FindOgbGraph(dir_.path(), "time"), "node-feat.csv.gz does not exist");
  Put("raw/triplet-type-list.csv.gz", Gzipped("a,b,c\n"));
  ExpectRefused(FindOgbGraph(dir_.path(), "time"), "several types");
  ExpectRefused(FindOgbGraph(dir_.Join("absent"), ""), "does not exist");
}

TEST_F(GraphSourcesTest, ReadsOgbBinary) {
  PutSplit();
  for (const bool deflated : {false, true}) {
    ZipFile data{.deflated = deflated}, labels{.deflated = deflated};
    data.Add("num_nodes_list.npy", NpyBytes(NpyType::kInt64, {1}, std::vector<int64_t>{4}));
    data.Add("edge_index.npy", NpyBytes(NpyType::kInt64, {2, 2}, std::vector<int64_t>{0, 1, 1, 2}));
    data.Add("node_feat.npy", NpyBytes(NpyType::kFloat32, {4, 1}, std::vector<float>{.5, 1, 2, 3}));
    const float nan = std::nanf("");
    labels.Add("node_label.npy",
               NpyBytes(NpyType::kFloat32, {4, 1}, std::vector<float>{0, 1, nan, 2}));
    Put("raw/data.npz", data.Take());
    Put("raw/node-label.npz", labels.Take());
    const GraphManifest manifest = Import(FindOgbGraph(dir_.path(), ""));
    EXPECT_EQ(manifest.labelled, 3);
    EXPECT_EQ(manifest.classes, 3);
  }
}

TEST_F(GraphSourcesTest, RefusesDamagedArchives) {
  for (const bool deflated : {false, true}) {
    ZipFile zip{.deflated = deflated};
    zip.Add("a.npy", NpyBytes(NpyType::kInt64, {300}, std::vector<int64_t>(300, 7)));
    const std::string whole = zip.Take();
    for (size_t at = 0; at < whole.size(); at += 7) {
      for (const bool cut : {false, true}) {
        std::string bytes = cut ? whole.substr(0, at) : whole;
        if (!cut) bytes[at] ^= 0x55;
        Put("a.npz", bytes);
        auto stream = OpenZipMember(dir_.Join("a.npz"), "a.npy");
        if (!stream.ok()) continue;
        std::string out(5000, '\0');
        size_t done = 0;
        absl::StatusOr<size_t> read = 1;
        while (read.ok() && *read > 0 && done < out.size()) {
          read = (*stream)->Read(absl::MakeSpan(out).subspan(done, 1000));
          if (read.ok()) done += *read;
        }
        // The head's time and such may change without harm.
        EXPECT_TRUE(!read.ok() || done <= 300U * 8 + 128);
      }
    }
    Put("a.npz", whole);
    EXPECT_EQ(OpenZipMember(dir_.Join("a.npz"), "b.npy").status().code(),
              absl::StatusCode::kNotFound);
    EXPECT_TRUE(*HasZipMember(dir_.Join("a.npz"), "a.npy"));
  }
}

constexpr char kGraphBolt[] = R"(
dataset_name: small
graph:
  nodes: [{num: 4}]
  edges: [{format: csv, path: edges.csv}]
feature_data:
  - {domain: node, name: feat, format: numpy, in_memory: false, path: x.npy}
  - {domain: node, name: other, format: torch, path: x.pt}
  - {domain: edge, name: weight, format: torch, path: w.pt}
tasks:
  - name: classes
    num_classes: 9
    train_set: [{data: [{name: seeds, format: numpy, path: train.npy}, {name: labels, format: numpy, path: y.npy}]}]
    validation_set: [{data: [{name: seeds, format: csv, path: valid.csv}]}]
)";

TEST_F(GraphSourcesTest, ReadsGraphBolt) {
  Put("edges.csv", "0,1\n1,2\n");
  WriteNpy(dir_.Join("x.npy"), NpyType::kFloat32, {4, 1}, std::vector<float>{.5, 1, 2, 3});
  WriteNpy(dir_.Join("train.npy"), NpyType::kInt64, {1}, std::vector<int64_t>{0});
  WriteNpy(dir_.Join("y.npy"), NpyType::kInt64, {1}, std::vector<int64_t>{6});
  Put("valid.csv", "3\n");
  Put("metadata.yaml", kGraphBolt);
  const GraphManifest manifest = Import(FindGraphBoltGraph(dir_.path(), "", ""));
  EXPECT_EQ(manifest.classes, 9);
  EXPECT_EQ(manifest.labelled, 1);
  EXPECT_EQ(manifest.valid, 1);
  EXPECT_EQ(manifest.test, 0);
  ExpectRefused(FindGraphBoltGraph(dir_.path(), "", "other"), "is of the format torch");
  ExpectRefused(FindGraphBoltGraph(dir_.path(), "links", ""), "no such task");
  ExpectRefused(FindGraphBoltGraph(dir_.path(), "", "absent"), "feat, other");
  EXPECT_EQ(FindGraphBoltGraph(dir_.Join("absent"), "", "").status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(GraphSourcesTest, ReadsPairsOfGraphBolt) {
  Put("edges.csv", "0,1\n1,2\n");
  WriteNpy(dir_.Join("x.npy"), NpyType::kFloat32, {4, 1}, std::vector<float>{.5, 1, 2, 3});
  WriteNpy(dir_.Join("train.npy"), NpyType::kInt64, {2, 2}, std::vector<int64_t>{0, 1, 1, 2});
  Put("valid.csv", "0,3\n0,2\n3,1\n");
  Put("y.csv", "1\n0\n1\n");
  Put("i.csv", "0\n0\n1\n");
  std::string yaml = kGraphBolt;
  yaml.resize(yaml.find("tasks:"));
  yaml += R"(
tasks:
  - name: links
    num_classes: 3
    train_set: [{data: [{name: seeds, format: numpy, path: train.npy}]}]
    validation_set: [{data: [{name: seeds, format: csv, path: valid.csv}, {name: labels, format: csv, path: y.csv},
                             {name: indexes, format: csv, path: i.csv}]}]
)";
  Put("metadata.yaml", yaml);
  GraphImport import = FindGraphBoltGraph(dir_.path(), "", "").value();
  import.out = dir_.Join("out");
  const GraphManifest manifest = ImportGraph(*MakePosixFileSystem(), import).value().manifest;
  EXPECT_EQ(manifest.train_pairs, 2);
  EXPECT_EQ(manifest.valid_pairs, 2);
  EXPECT_EQ(manifest.classes, 0);
  EXPECT_EQ(manifest.train, 0);
}

TEST_F(GraphSourcesTest, SaysWhatToDoWithLinksOfOgb) {
  PutSplit();
  Put("split/time/train.pt", "");
  Put("raw/edge.csv", "0,1\n");
  ExpectRefused(FindOgbGraph(dir_.path(), ""), "train.pt: a split of links");
}

TEST_F(GraphSourcesTest, RefusesOtherMetadata) {
  for (const char* const yaml :
       {"", "a: [", "graph: 7", "graph: {nodes: [{num: 3}]}", "- 1", "graph_topology: {path: x}",
        "graph: {nodes: [{type: a, num: 3}, {type: b, num: 4}], edges: [{format: csv, path: e}]}",
        "graph: {nodes: [{num: x}], edges: [{format: csv, path: e}]}\nfeature_data: 3",
        "graph: {nodes: [{num: 3}], edges: [{format: feather, path: e}]}"})
    EXPECT_EQ(Bolt(yaml).status().code(), absl::StatusCode::kInvalidArgument) << yaml;
  EXPECT_EQ(Bolt(std::string(20000, '[')).status().code(), absl::StatusCode::kInvalidArgument);
  std::string links = kGraphBolt;
  links.replace(links.find("name: labels"), 12, "name: indexes");
  ExpectRefused(Bolt(links), "indexes");
}

}  // namespace
}  // namespace longhaul
