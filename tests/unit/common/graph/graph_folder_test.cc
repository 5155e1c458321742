#include "common/graph/graph_folder.h"

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_hint.h"
#include "common/io/posix_filesystem.h"
#include "common/io/read_only_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/graph_files.h"
#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_support::GraphContent;
using testing_support::RingGraph;
using testing_support::WriteGraph;

class GraphFolderTest : public ::testing::Test {
 protected:
  // Opens a folder with this content. The writer does not look at the arrays.
  absl::Status StatusOf(const GraphContent& graph) {
    const std::string path = dir_.Join(absl::StrCat("g", ++folders_));
    WriteGraph(graph, path);
    const absl::Status status = GraphFolder::Open(path).status();
    EXPECT_TRUE(status.ok() || !HintIn(status).empty()) << status;
    return status;
  }
  void ExpectRefused(const GraphContent& graph, const std::string& message) {
    const absl::Status status = StatusOf(graph);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(status.message(), HasSubstr(message));
  }
  std::string Written(const GraphContent& graph) {
    const std::string path = dir_.Join("graph");
    std::filesystem::remove_all(path);
    WriteGraph(graph, path);
    return path;
  }

  TempDir dir_;
  int folders_ = 0;
};

TEST_F(GraphFolderTest, ReadsWhatWasWritten) {
  for (const bool wide : {false, true}) {
    GraphContent graph = RingGraph(7, 3);
    graph.wide = wide;
    const auto folder = GraphFolder::Open(Written(graph));
    ASSERT_TRUE(folder.ok()) << folder.status();
    EXPECT_THAT(folder->train(), ElementsAre(0, 3, 6));
    EXPECT_THAT(folder->labels(), ElementsAre(0, 1, 0, 1, 0, 1, 0));
    EXPECT_EQ(folder->features()[3 * 3 + 2], 3.125F);
    const GraphEdges edges = folder->edges();
    EXPECT_EQ(edges.edges(), 7);
    EXPECT_EQ(wide ? edges.wide_sources[0] : edges.sources[0], 6);
    EXPECT_EQ((wide ? static_cast<const void*>(edges.sources) : edges.wide_sources), nullptr);
    EXPECT_EQ(folder->IdOf(5), "5");
    EXPECT_TRUE(folder->Check().ok());
  }
}

TEST_F(GraphFolderTest, SchemaIsOfColumnsAndClassesInOrder) {
  GraphManifest manifest = RingGraph(4, 2).manifest;
  const std::string digest = manifest.SchemaDigest();
  GraphManifest other = manifest;
  other.nodes = 99;
  EXPECT_EQ(other.SchemaDigest(), digest);
  EXPECT_EQ(SchemaDifference("a", manifest, "b", other), "");
  other.class_names = {"x", "y"};
  EXPECT_NE(other.SchemaDigest(), digest);
  EXPECT_EQ(SchemaDifference("a", manifest, "b", other), "only b names its classes");
  GraphManifest swapped = other;
  swapped.class_names = {"y", "x"};
  EXPECT_NE(swapped.SchemaDigest(), other.SchemaDigest());
  EXPECT_EQ(SchemaDifference("a", other, "b", swapped), "class 0 is \"x\" at a, \"y\" at b");
  other.columns = 3;
  EXPECT_EQ(SchemaDifference("a", manifest, "b", other), "2 columns at a, 3 at b");
  // Where links are predicted, only columns count.
  EXPECT_EQ(swapped.WithoutClasses().SchemaDigest(), manifest.WithoutClasses().SchemaDigest());
  EXPECT_NE(swapped.WithoutClasses().SchemaDigest(), other.WithoutClasses().SchemaDigest());
  // Names do not run into each other.
  manifest.class_names = {"ab", "c"};
  other = manifest;
  other.class_names = {"a", "bc"};
  EXPECT_NE(manifest.SchemaDigest(), other.SchemaDigest());
}

TEST_F(GraphFolderTest, NamesThePlaceOfABadSource) {
  for (const bool wide : {false, true}) {
    for (const int edge : {0, 3, 6}) {
      for (const int64_t bad : {int64_t{7}, int64_t{-1}, int64_t{1} << 31}) {
        GraphContent graph = RingGraph(7, 1);
        graph.wide = wide;
        graph.sources[edge] = bad;
        ExpectRefused(graph, absl::StrCat("indices.npy: edge ", edge, ": "));
      }
    }
  }
}

TEST_F(GraphFolderTest, RefusesIndptrThatFallsOrEndsElsewhere) {
  GraphContent graph = RingGraph(7, 1);
  std::swap(graph.indptr[3], graph.indptr[4]);
  ExpectRefused(graph, "indptr.npy: element 4 is below");
  graph = RingGraph(7, 1);
  graph.indptr[0] = 1;
  ExpectRefused(graph, "indptr.npy: element 0");
  graph = RingGraph(7, 1);
  graph.indptr[7] = 8;
  ExpectRefused(graph, "indptr.npy: the last element");
}

TEST_F(GraphFolderTest, NamesThePlaceOfABadPair) {
  GraphContent graph = RingGraph(7, 1);
  graph.train_pairs = {0, 2};
  graph.valid_pairs = {0, 3, 4, 5};
  EXPECT_TRUE(StatusOf(graph).ok());
  for (const int64_t bad : {int64_t{7}, int64_t{-1}, int64_t{1} << 40}) {
    graph.valid_pairs = {0, 3, bad, 5};
    ExpectRefused(graph, "valid_pairs.npy: row 1: an end is not one of 7 nodes");
    graph.valid_pairs = {0, bad, 4, 5};
    ExpectRefused(graph, "valid_pairs.npy: row 0: an end");
  }
  graph.valid_pairs = {0, 3, 4, 4};
  ExpectRefused(graph, "valid_pairs.npy: row 1: a node with itself");
}

TEST_F(GraphFolderTest, ReadsFoldersOfVersionsWithoutPairs) {
  const std::string path = Written(RingGraph(7, 1));
  std::ifstream file(path + "/manifest.json");
  std::string line, text;
  int left_out = 0;
  while (std::getline(file, line)) {
    const bool later = absl::StrContains(line, "_pairs\"") || absl::StrContains(line, "held_out");
    left_out += later;
    if (!later) absl::StrAppend(&text, line, "\n");
  }
  EXPECT_EQ(left_out, 4);
  std::ofstream(path + "/manifest.json") << text;
  EXPECT_TRUE(GraphFolder::Open(path).ok()) << GraphFolder::Open(path).status();
}

TEST_F(GraphFolderTest, RefusesDuplicatesUnlessTheyWereKept) {
  GraphContent graph = RingGraph(4, 1);
  graph.sources = {1, 1, 0, 1};
  graph.indptr = {0, 2, 3, 4, 4};
  ExpectRefused(graph, "edge 1");
  graph.manifest.duplicates_kept = true;
  EXPECT_TRUE(StatusOf(graph).ok());
  graph.sources = {3, 1, 0, 1};
  ExpectRefused(graph, "edge 1");
}

TEST_F(GraphFolderTest, NamesThePlaceOfFeaturesThatAreNoNumbers) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    GraphContent graph = RingGraph(7, 3);
    graph.features[5 * 3 + 1] = bad;
    ExpectRefused(graph, "features.npy: row 5, column 1");
  }
}

TEST_F(GraphFolderTest, RefusesLabelsOutOfRange) {
  GraphContent graph = RingGraph(7, 1);
  graph.labels[2] = -1;
  EXPECT_TRUE(StatusOf(graph).ok());
  graph.labels[2] = 2;
  ExpectRefused(graph, "labels.npy: row 2");
  graph.labels[2] = -2;
  ExpectRefused(graph, "labels.npy: row 2");
}

TEST_F(GraphFolderTest, RefusesSplitsThatOverlapOrAreOutOfRange) {
  GraphContent graph = RingGraph(7, 1);
  graph.valid.back() = 6;
  ExpectRefused(graph, "valid.npy: element 1 is in another split");
  graph = RingGraph(7, 1);
  graph.train = {0, 0, 3};
  ExpectRefused(graph, "train.npy: element 1");
  for (const int64_t bad : {-1, 7}) {
    graph.train = {bad};
    ExpectRefused(graph, "train.npy: element 0");
  }
}

TEST_F(GraphFolderTest, TellsCutChangedAndReplacedFiles) {
  const GraphContent graph = RingGraph(5000, 4);
  const std::string path = Written(graph), features = path + "/features.npy";
  const auto size = static_cast<int64_t>(std::filesystem::file_size(features));
  ASSERT_EQ(truncate(features.c_str(), size - 4), 0);
  absl::Status status = GraphFolder::Open(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("features.npy"));

  Written(graph);
  {
    std::fstream file(features, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(size - 4);
    const float other = 0.5F;
    file.write(reinterpret_cast<const char*>(&other), 4);
  }
  status = GraphFolder::Open(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("digest"));
  // Without reading it nobody knows.
  EXPECT_TRUE(GraphFolder::Open(path, {.read_all = false}).ok());

  Written(graph);
  std::filesystem::remove(path + "/valid.npy");
  EXPECT_EQ(GraphFolder::Open(path).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(GraphFolderTest, SurvivesAFileThatIsCutOrReplacedWhileItIsOpen) {
  const std::string path = Written(RingGraph(50000, 4)), features = path + "/features.npy";
  const auto folder = GraphFolder::Open(path);
  ASSERT_TRUE(folder.ok()) << folder.status();
  ASSERT_EQ(truncate(features.c_str(), 4096), 0);
  float sum = 0;
  for (const float value : folder->features()) sum += value;
  EXPECT_LT(sum, 1e9);
  const absl::Status cut = folder->Check();
  EXPECT_EQ(cut.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(cut.message(), HasSubstr("features.npy ends at byte 4096"));

  const std::string other = Written(RingGraph(50, 4));
  const auto replaced = GraphFolder::Open(other);
  ASSERT_TRUE(replaced.ok());
  const std::string copy = dir_.Join("copy.npy"), indices = other + "/indices.npy";
  std::filesystem::copy_file(indices, copy);
  std::filesystem::rename(copy, indices);
  EXPECT_THAT(replaced->Check().message(), HasSubstr("is not the file that it was"));
}

TEST_F(GraphFolderTest, RefusesManifestsThatDoNotMatch) {
  const std::string path = Written(RingGraph(7, 3)), file = path + "/manifest.json";
  const std::string text = ReadRegularFile(file, 1 << 20).value();
  EXPECT_TRUE(ParseGraphManifest("m", text).ok());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    changed.replace(at, from.size(), to);
    return ParseGraphManifest("m", changed).status();
  };
  EXPECT_THAT(with("\"version\": 1", "\"version\": 2").message(), HasSubstr("version 2"));
  EXPECT_THAT(with("\"nodes\": 7", "\"nodes\": 8").message(), HasSubstr("shape"));
  EXPECT_THAT(with("\"nodes\": 7", "\"nodes\": -7").message(), HasSubstr("nodes"));
  EXPECT_THAT(with("\"nodes\": 7", "\"nodes\": 7.5").message(), HasSubstr("nodes"));
  EXPECT_THAT(with("\"columns\": 3", "\"columns\": 0").message(), HasSubstr("columns"));
  EXPECT_THAT(with("\"classes\": 2", "\"classes\": 3").message(), HasSubstr("schema_digest"));
  EXPECT_THAT(with("\"indptr\"", "\"../ptr\"").message(), HasSubstr("indptr is missing"));
  EXPECT_THAT(with("\"int32\"", "\"float32\"").message(), HasSubstr("float32"));
  EXPECT_THAT(with("directed", "sideways").message(), HasSubstr("direction"));
  EXPECT_FALSE(ParseGraphManifest("m", "").ok());
  EXPECT_FALSE(ParseGraphManifest("m", "[]").ok());
  EXPECT_EQ(GraphFolder::Open(dir_.Join("absent")).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(GraphFolderTest, WritesAllOrNothing) {
  const auto fs = MakePosixFileSystem();
  const std::string path = dir_.Join("whole");
  {
    auto writer = GraphWriter::Create(fs.get(), path);
    ASSERT_TRUE(writer.ok());
    const std::vector<int64_t> values = {0, 1};
    ASSERT_TRUE(
        writer->WriteArray("indptr", NpyType::kInt64, testing_support::SpanOf(values)).ok());
    EXPECT_FALSE(std::filesystem::exists(path));
    // Arrays are missing.
    GraphManifest manifest;
    manifest.nodes = manifest.columns = 1;
    EXPECT_EQ(writer->Finish(manifest).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
  WriteGraph(RingGraph(3, 1), path);
  const auto again = GraphWriter::Create(fs.get(), path);
  EXPECT_EQ(again.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(GraphFolder::Open(path).ok());
}

}  // namespace
}  // namespace longhaul
