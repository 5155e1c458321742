#include "worker/data/graph/graph_import.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/base/status_hint.h"
#include "common/graph/graph_folder.h"
#include "common/io/posix_filesystem.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/number_files.h"
#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_support::Gzipped;
using testing_support::NpyBytes;
using testing_support::WriteBytes;
using testing_support::WriteNpy;

// Five nodes; the edges 0 -> 1, 1 -> 2, 2 -> 0, 3 -> 2.
class GraphImportTest : public ::testing::Test {
 protected:
  GraphImportTest() {
    import_.nodes = 5;
    import_.edges = {Text("edges.csv", "0,1\n1,2\n2,0\n3,2\n")};
    import_.features = Text("features.csv", "0,1\n2,3\n4,5\n6,7\n8,9.5\n");
    import_.labels = Text("labels.csv", "0\n1\n0\n1\n1\n");
    import_.train.nodes = Text("train.csv", "0\n1\n");
    import_.valid.nodes = Text("valid.csv", "3\n");
    import_.test.nodes = Text("test.csv", "4\n");
    import_.out = dir_.Join("out");
  }

  NumberFile Text(const std::string& name, const std::string& text) {
    return {WriteBytes(dir_.Join(name), text), ""};
  }
  template <typename T>
  NumberFile Npy(const std::string& name, NpyType type, const std::vector<int64_t>& shape,
                 const std::vector<T>& values) {
    return {WriteNpy(dir_.Join(name), type, shape, values), ""};
  }

  GraphImportResult Import() {
    std::filesystem::remove_all(import_.out);
    auto result = ImportGraph(*fs_, import_);
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return {};
    // What is written keeps its promises.
    EXPECT_TRUE(GraphFolder::Open(import_.out).ok()) << GraphFolder::Open(import_.out).status();
    return *std::move(result);
  }
  // Nothing is left of an import that fails.
  void ExpectRefused(const std::string& message) {
    std::filesystem::remove_all(import_.out);
    const absl::Status status = ImportGraph(*fs_, import_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(status.message(), HasSubstr(message));
    EXPECT_NE(HintIn(status), "") << status;
    EXPECT_FALSE(std::filesystem::exists(import_.out));
    EXPECT_FALSE(std::filesystem::exists(import_.out + ".tmp"));
  }
  std::vector<int64_t> SourcesOf(int64_t node) {
    const GraphFolder folder = GraphFolder::Open(import_.out).value();
    const GraphEdges edges = folder.edges();
    std::vector<int64_t> result;
    for (int64_t e = edges.indptr[node]; e < edges.indptr[node + 1]; ++e)
      result.push_back(edges.sources == nullptr ? edges.wide_sources[e] : edges.sources[e]);
    return result;
  }
  void ExpectTheGraph() {
    EXPECT_THAT(SourcesOf(0), ElementsAre(2));
    EXPECT_THAT(SourcesOf(1), ElementsAre(0));
    EXPECT_THAT(SourcesOf(2), ElementsAre(1, 3));
    EXPECT_THAT(SourcesOf(3), IsEmpty());
    EXPECT_THAT(SourcesOf(4), IsEmpty());
  }

  TempDir dir_;
  std::unique_ptr<FileSystem> fs_ = MakePosixFileSystem();
  GraphImport import_;
};

TEST_F(GraphImportTest, ReadsCsv) {
  const GraphImportResult result = Import();
  ExpectTheGraph();
  const GraphFolder folder = GraphFolder::Open(import_.out).value();
  EXPECT_THAT(folder.features(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9.5));
  EXPECT_THAT(folder.labels(), ElementsAre(0, 1, 0, 1, 1));
  EXPECT_THAT(folder.train(), ElementsAre(0, 1));
  EXPECT_EQ(result.manifest.classes, 2);
  EXPECT_EQ(result.manifest.nodes_without_in_edges, 2);
}

TEST_F(GraphImportTest, EachFormOfEdgesGivesTheSameGraph) {
  const std::string digest = [&] {
    Import();
    return GraphFolder::Open(import_.out).value().manifest().ContentDigest().Hex();
  }();
  const std::vector<int64_t> rows = {0, 1, 1, 2, 2, 0, 3, 2}, columns = {0, 1, 2, 3, 1, 2, 0, 2};
  const std::vector<int32_t> narrow(columns.begin(), columns.end());
  const NumberFile forms[] = {
      Npy("rows.npy", NpyType::kInt64, {4, 2}, rows),
      Npy("columns.npy", NpyType::kInt64, {2, 4}, columns),
      Npy("narrow.npy", NpyType::kInt32, {2, 4}, narrow),
      {WriteBytes(dir_.Join("c.npy.gz"), Gzipped(NpyBytes(NpyType::kInt32, {2, 4}, narrow))), ""},
      {WriteBytes(dir_.Join("edges.csv.gz"), Gzipped("0,1\n1,2\n2,0\n3,2")), ""},
      Text("tabs.tsv", "0\t1\r\n1\t2\r\n2\t0\r\n3\t2\r\n"),
      Text("spaces.txt", "0 1\n1  2 \n 2 0\n3 2\n\n\n"),
      // As spreadsheets write it.
      Text("sheet.csv", "\xef\xbb\xbf\"0\",\"1\"\r\n\"1\",2\r\n2 , \"0\"\r\n3,2\r\n")};
  for (const NumberFile& form : forms) {
    import_.edges = {form};
    Import();
    EXPECT_EQ(GraphFolder::Open(import_.out).value().manifest().ContentDigest().Hex(), digest)
        << form.path;
  }
  // Several files, in any order.
  import_.edges = {Text("b.csv", "3,2\n2,0\n"), Text("a.csv", "1,2\n0,1\n")};
  Import();
  EXPECT_EQ(GraphFolder::Open(import_.out).value().manifest().ContentDigest().Hex(), digest);
}

std::vector<std::pair<int64_t, int64_t>> PairsOf(absl::Span<const NodePair> pairs) {
  std::vector<std::pair<int64_t, int64_t>> result;
  for (const auto& [source, target] : pairs) result.emplace_back(source, target);
  return result;
}

TEST_F(GraphImportTest, HeldOutPairsAreNoEdges) {
  using Ends = std::vector<std::pair<int64_t, int64_t>>;
  for (const bool keep : {false, true}) {
    import_.keep_held_out = keep;
    import_.labels = std::nullopt;
    import_.train = import_.valid = import_.test = {};
    import_.edges = {Text("e.csv", "0,1\n1,2\n2,0\n3,2\n2,3\n")};
    // One of them in the other direction, one that is no edge; also an array (2, pairs).
    import_.valid_pairs.pairs =
        Npy("v.npy", NpyType::kInt64, {2, 3}, std::vector<int64_t>{2, 0, 4, 3, 2, 0});
    import_.test_pairs.pairs = Text("t.csv", "1,0\n");
    const GraphImportResult result = Import();
    const GraphFolder folder = GraphFolder::Open(import_.out).value();
    EXPECT_EQ(PairsOf(folder.valid_pairs()), (Ends{{2, 3}, {0, 2}, {4, 0}}));
    EXPECT_EQ(PairsOf(folder.test_pairs()), (Ends{{1, 0}}));
    EXPECT_TRUE(folder.train_pairs().empty());
    EXPECT_EQ(result.manifest.edges, keep ? 5 : 1);
    EXPECT_EQ(result.manifest.held_out_edges, keep ? 0 : 4);
    EXPECT_EQ(SourcesOf(2), keep ? (std::vector<int64_t>{1, 3}) : std::vector<int64_t>{1});
  }
}

TEST_F(GraphImportTest, ReadsTrainingPairsAndLeavesOutWhatIsNotLinked) {
  import_.train_pairs = {Text("p.csv", "0,1\n0,1\n4,3\n0,3\n"), Text("l.csv", "1\n1\n0\n1\n")};
  import_.valid_pairs.pairs = Text("v.csv", "3,4\n");
  const GraphImportResult result = Import();
  EXPECT_EQ(PairsOf(GraphFolder::Open(import_.out).value().train_pairs()),
            (std::vector<std::pair<int64_t, int64_t>>{{0, 1}, {0, 1}, {0, 3}}));
  EXPECT_EQ(result.manifest.train_pairs, 3);
  // Nodes have their splits, too.
  EXPECT_EQ(result.manifest.train, 2);
}

TEST_F(GraphImportTest, DrawsAShareOfTheEdges) {
  constexpr int64_t kNodes = 300;
  std::string edges;
  std::set<std::pair<int64_t, int64_t>> all;
  for (uint64_t i = 0; i < 4000; ++i) {
    const auto source = static_cast<int64_t>(Philox64(1, 0, i) % kNodes);
    const auto target = static_cast<int64_t>(Philox64(2, 0, i) % kNodes);
    absl::StrAppend(&edges, source, ",", target, "\n");
    if (source != target) all.emplace(std::min(source, target), std::max(source, target));
  }
  std::string features;
  for (int64_t i = 0; i < kNodes; ++i) features += "1\n";
  import_.nodes = kNodes;
  import_.features = Text("f.csv", features);
  import_.edges = {Text("e.csv", edges)};
  import_.labels = std::nullopt;
  import_.train = import_.valid = import_.test = {};
  import_.reverse_edges = true;
  import_.valid_share = 0.1;
  import_.test_share = 0.2;
  std::set<std::string> digests;
  for (const uint64_t seed : {1, 1, 2}) {
    import_.split_seed = seed;
    // Sorted on the disk, too.
    import_.memory_bytes = digests.empty() ? 1 << 10 : 256 << 20;
    const GraphManifest manifest = Import().manifest;
    digests.insert(manifest.ContentDigest().Hex());
    const auto share = [&](int64_t pairs) {
      return static_cast<double>(pairs) / static_cast<double>(all.size());
    };
    EXPECT_NEAR(share(manifest.valid_pairs), 0.1, 0.02);
    EXPECT_NEAR(share(manifest.test_pairs), 0.2, 0.02);
    EXPECT_EQ(manifest.held_out_edges, 2 * (manifest.valid_pairs + manifest.test_pairs));
    EXPECT_EQ(manifest.edges + manifest.held_out_edges, 2 * static_cast<int64_t>(all.size()));
    const GraphFolder folder = GraphFolder::Open(import_.out).value();
    std::set<std::pair<int64_t, int64_t>> seen;
    int64_t ascending = 0;
    for (const auto pairs : {folder.valid_pairs(), folder.test_pairs()}) {
      for (const auto& [source, target] : pairs) {
        const std::pair<int64_t, int64_t> pair = std::minmax(source, target);
        EXPECT_TRUE(all.contains(pair));
        EXPECT_TRUE(seen.insert(pair).second);
        ascending += source < target;
        EXPECT_THAT(SourcesOf(target), testing::Not(testing::Contains(source)));
        EXPECT_THAT(SourcesOf(source), testing::Not(testing::Contains(target)));
      }
    }
    // Either end is the source.
    EXPECT_NEAR(static_cast<double>(ascending) / static_cast<double>(seen.size()), 0.5, 0.1);
  }
  EXPECT_EQ(digests.size(), 2U);
}

TEST_F(GraphImportTest, RefusesPairsWithTheirPlace) {
  const GraphImport plain = import_;
  const auto refused = [&](const char* valid, const char* test, const std::string& message) {
    import_ = plain;
    import_.valid_pairs.pairs = Text("v.csv", valid);
    if (*test != 0) import_.test_pairs.pairs = Text("t.csv", test);
    ExpectRefused(message);
  };
  refused("0,1\n0,5\n", "", "v.csv: line 2, column 2: the node 5 is not one of 5");
  refused("0,1\n-1,2\n", "", "v.csv: line 2, column 1: the node -1");
  refused("0,1\n2,2\n", "", "v.csv: line 2, column 1: a pair of the node 2 with itself");
  refused("0,1\n", "3,4\n1,0\n",
          "t.csv: line 2, column 1: the pair 1, 0 is already in valid_pairs");
  refused("0,1,2\n", "", "v.csv: 3 columns, not two");
  refused("0.5,1\n", "", "v.csv: line 1");
  refused("", "", "v.csv");
  import_ = plain;
  import_.valid_pairs = {Text("v.csv", "0,1\n"), Text("l.csv", "1\n0\n")};
  ExpectRefused("l.csv: 2 labels for 1 pairs");
  import_.valid_pairs.labels = Text("l.csv", "2\n");
  ExpectRefused("the label 2 is neither 0 nor 1");
  import_.valid_pairs.labels = Text("l.csv", "0\n");
  ExpectRefused("v.csv: no pair");
  import_ = plain;
  import_.valid_share = 1e-9;
  ExpectRefused("no edge fell into the share");
  import_.valid_share = 0.6;
  import_.test_share = 0.5;
  ExpectRefused("shares of 0.6 and 0.5");
  import_.test_share = 0;
  import_.valid_pairs.pairs = Text("v.csv", "0,1\n");
  ExpectRefused("both a file and a share");
  import_.valid_pairs = {};
  import_.train_pairs.pairs = Text("p.csv", "0,1\n");
  ExpectRefused("training pairs of a file, and others by a share");
}

TEST_F(GraphImportTest, CountsMergedDuplicatesAndDroppedLoops) {
  std::string edges = "4,4\n";
  for (int i = 0; i < 10; ++i) edges += "0,1\n";
  import_.edges = {Text("e.csv", edges + "1,0\n")};
  GraphImportResult result = Import();
  EXPECT_THAT(SourcesOf(1), ElementsAre(0));
  EXPECT_EQ(result.manifest.pairs_read, 12);
  EXPECT_EQ(result.manifest.merged_duplicates, 9);
  EXPECT_EQ(result.manifest.dropped_loops, 1);
  EXPECT_EQ(result.manifest.edges, 2);
  import_.keep_duplicates = true;
  result = Import();
  EXPECT_EQ(SourcesOf(1).size(), 10U);
  EXPECT_EQ(result.manifest.merged_duplicates, 0);
  import_.keep_duplicates = false;
  import_.reverse_edges = true;
  result = Import();
  EXPECT_THAT(SourcesOf(0), ElementsAre(1));
  EXPECT_THAT(SourcesOf(1), ElementsAre(0));
  EXPECT_EQ(result.manifest.merged_duplicates, 20);
  EXPECT_TRUE(result.manifest.reverse_edges);
}

TEST_F(GraphImportTest, WarnsWhereManyNodesHaveNoInEdge) {
  GraphImportResult result = Import();
  ASSERT_EQ(result.warnings.size(), 1U);
  EXPECT_THAT(result.warnings[0], HasSubstr("40.0 % of the nodes have no in-edge"));
  EXPECT_THAT(result.warnings[0], HasSubstr("--reverse-edges"));
  import_.reverse_edges = true;
  result = Import();
  // Node 4 alone: a fifth, not more.
  EXPECT_THAT(result.warnings, IsEmpty());
}

TEST_F(GraphImportTest, EdgesBeyondMemoryGiveTheSameGraph) {
  constexpr int64_t kNodes = 3000, kPairs = 40000;
  Random random(5);
  std::vector<int32_t> pairs;
  for (int64_t i = 0; i < 2 * kPairs; ++i) {
    // Few targets have most of the edges.
    const uint64_t node = random.Below(kNodes);
    pairs.push_back(static_cast<int32_t>(i % 2 == 0 ? node : random.Below(node + 1) / 3));
  }
  import_.nodes = kNodes;
  import_.edges = {Npy("e.npy", NpyType::kInt32, {kPairs, 2}, pairs)};
  import_.features = Npy("x.npy", NpyType::kFloat32, {kNodes, 1}, std::vector<float>(kNodes, 1));
  import_.labels.reset();
  for (const bool keep : {false, true}) {
    import_.keep_duplicates = keep;
    import_.memory_bytes = 256 << 20;
    const GraphImportResult whole = Import();
    std::set<std::pair<int32_t, int32_t>> distinct;
    int64_t loops = 0;
    for (int64_t i = 0; i < kPairs; ++i) {
      if (pairs[2 * i] == pairs[2 * i + 1]) {
        ++loops;
      } else {
        distinct.emplace(pairs[2 * i], pairs[2 * i + 1]);
      }
    }
    EXPECT_EQ(whole.manifest.dropped_loops, loops);
    EXPECT_EQ(whole.manifest.edges, keep ? kPairs - loops : static_cast<int64_t>(distinct.size()));
    // Hundreds of runs; runs of a few edges; runs that end exactly at the end.
    for (const int64_t memory : {16 * 200, 16 * 4001, 16 * 1}) {
      import_.memory_bytes = memory;
      const GraphImportResult parts = Import();
      EXPECT_EQ(parts.manifest.ContentDigest(), whole.manifest.ContentDigest());
      EXPECT_EQ(parts.manifest.merged_duplicates, whole.manifest.merged_duplicates);
      EXPECT_FALSE(std::filesystem::exists(import_.out + "/edges.runs"));
    }
    import_.wide_sources = true;
    EXPECT_EQ(Import().manifest.arrays.at("indices").type, NpyType::kInt64);
    import_.wide_sources = false;
  }
}

TEST_F(GraphImportTest, NamesFilePlaceAndValueOfABadNode) {
  for (const int64_t bad : {int64_t{5}, int64_t{-1}, int64_t{1} << 31, int64_t{1} << 40}) {
    for (const int edge : {0, 2, 3}) {
      for (const int end : {0, 1}) {
        std::vector<int64_t> rows = {0, 1, 1, 2, 2, 0, 3, 2};
        rows[2 * edge + end] = bad;
        import_.edges = {Npy("rows.npy", NpyType::kInt64, {4, 2}, rows)};
        ExpectRefused(absl::StrCat("rows.npy: row ", edge, ", column ", end, ": the node ", bad,
                                   " is not one of 5"));
        std::vector<int64_t> columns(8);
        for (int i = 0; i < 8; ++i) columns[i % 2 * 4 + i / 2] = rows[i];
        import_.edges = {Npy("columns.npy", NpyType::kInt64, {2, 4}, columns)};
        ExpectRefused(
            absl::StrCat("columns.npy: row ", end, ", column ", edge, ": the node ", bad));
      }
    }
    import_.edges = {Text("e.csv", absl::StrCat("0,1\n2,", bad, "\n"))};
    ExpectRefused(absl::StrCat("e.csv: line 2, column 2: the node ", bad));
    import_.edges = {Text("e.csv", "0,1\n")};
    import_.train.nodes = Text("t.csv", absl::StrCat("0\n", bad, "\n"));
    ExpectRefused(absl::StrCat("t.csv: line 2: the node ", bad));
    import_.train.nodes = Text("t.csv", "0\n");
  }
}

TEST_F(GraphImportTest, RefusesOtherFilesOfEdges) {
  import_.edges = {Text("e.csv", "source,target\n0,1\n")};
  ExpectRefused("e.csv: line 1, column 1: \"source\" is not a whole number");
  import_.edges = {Text("e.csv", "0,1\n2\n")};
  ExpectRefused("e.csv: line 2");
  import_.edges = {Text("e.csv", "0,1\n2,3,4\n")};
  ExpectRefused("e.csv: line 2");
  import_.edges = {Text("e.csv", "0,1\n\n2,3\n")};
  ExpectRefused("e.csv: line 2, column 1: an empty line");
  import_.edges = {Text("e.csv", "0,1.0\n")};
  ExpectRefused("\"1.0\" is not a whole number");
  import_.edges = {Text("e.csv", "0,99999999999999999999\n")};
  ExpectRefused("is not a whole number");
  import_.edges = {Text("e.csv", "0,1,2\n")};
  ExpectRefused("3 columns, not two");
  import_.edges = {Npy("e.npy", NpyType::kUint32, {1, 2}, std::vector<uint32_t>{0, 1})};
  ExpectRefused("uint32");
  import_.edges = {Npy("e.npy", NpyType::kFloat64, {1, 2}, std::vector<double>{0, 1})};
  ExpectRefused("float64");
  import_.edges = {Npy("e.npy", NpyType::kInt64, {2, 2}, std::vector<int64_t>{0, 1, 2})};
  ExpectRefused("has 32 bytes, the file has 24");
  import_.edges = {Npy("e.npy", NpyType::kInt64, {1, 1, 2}, std::vector<int64_t>{0, 1})};
  ExpectRefused("(1, 1, 2)");
  import_.edges = {Text("e.npy", "0,1\n")};
  ExpectRefused("e.npy: not a .npy file");
  import_.edges = {Text("e.pt", "PK\x03\x04zip")};
  ExpectRefused("a zip archive");
  import_.edges = {{WriteBytes(dir_.Join("cut.csv.gz"), Gzipped("0,1\n1,2\n").substr(0, 20)), ""}};
  std::filesystem::remove_all(import_.out);
  EXPECT_EQ(ImportGraph(*fs_, import_).status().code(), absl::StatusCode::kInvalidArgument);
  import_.edges = {{dir_.Join("absent.csv"), ""}};
  EXPECT_EQ(ImportGraph(*fs_, import_).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(GraphImportTest, HintsAtWhatIsWrongWithText) {
  const auto hint = [&](const std::string& text) {
    import_.edges = {Text("e.csv", text)};
    std::filesystem::remove_all(import_.out);
    return HintIn(ImportGraph(*fs_, import_).status());
  };
  EXPECT_THAT(hint("source,target\n0,1\n"), HasSubstr("remove its first line"));
  EXPECT_THAT(hint("\"source\",\"target\"\n0,1\n"), HasSubstr("remove its first line"));
  // Its first line is an edge.
  EXPECT_EQ(hint("0,1.5\n1,2\n"), "correct the line");
  EXPECT_EQ(hint("\"0,1\"\n"), "correct the line");
  EXPECT_THAT(hint("0;1\n1;2\n"), HasSubstr("separate them by commas"));
  import_.edges = {Text("e.csv", "0,1\n")};
  import_.features = Text("x.csv", "0,5;1\n2,5;3\n4;5\n6;7\n8;9\n");
  ExpectRefused("x.csv: line 1: its columns are separated by semicolons");
}

// A wrong number of nodes is told before memory is taken for so many.
TEST_F(GraphImportTest, ComparesArraysWithTheNumberOfNodesFirst) {
  import_.nodes = kGraphNodesMax;
  import_.features = Npy("x.npy", NpyType::kFloat32, {2, 1}, std::vector<float>{1, 2});
  ExpectRefused(absl::StrCat("x.npy: 2 rows for ", kGraphNodesMax, " nodes"));
  import_.nodes = 1;
  ExpectRefused("x.npy: 2 rows for 1 node");
}

TEST_F(GraphImportTest, AGraphWithoutEdgesIsAGraph) {
  import_.edges = {Text("e.csv", "")};
  EXPECT_EQ(Import().manifest.edges, 0);
  import_.edges = {Npy("e.npy", NpyType::kInt64, {2, 0}, std::vector<int64_t>())};
  EXPECT_EQ(Import().manifest.nodes_without_in_edges, 5);
}

TEST_F(GraphImportTest, NamesThePlaceOfFeaturesThatAreNoNumbers) {
  import_.features = Text("x.csv", "0,1\n2,3\n4,nan\n6,7\n8,9\n");
  ExpectRefused("x.csv: line 3, column 2: the feature is nan");
  import_.features = Text("x.csv", "0,1\n2,3\n4,\n6,7\n8,9\n");
  ExpectRefused("x.csv: line 3, column 2");
  import_.features = Text("x.csv", "0,1\n2,3\n4,1e99\n6,7\n8,9\n");
  ExpectRefused("x.csv: line 3, column 2: the feature is inf");
  import_.features = Text("x.csv", "0,1\n2,3\n4,1e-99\n6,7\n8,9\n");
  Import();
  const float inf = std::numeric_limits<float>::infinity();
  import_.features = Npy("x.npy", NpyType::kFloat32, {5, 1}, std::vector<float>{1, 2, 3, inf, 4});
  ExpectRefused("x.npy: row 3: the feature is inf");
  import_.features = Text("x.csv", "0,1\n2,3\n");
  ExpectRefused("x.csv: 2 rows for 5 nodes");
  import_.features = Npy("x.npy", NpyType::kFloat32, {6, 1}, std::vector<float>{1, 2, 3, 4, 5, 6});
  ExpectRefused("x.npy: 6 rows for 5 nodes");
}

TEST_F(GraphImportTest, ConvertsFeatures) {
  import_.features = Npy("x.npy", NpyType::kFloat64, {5}, std::vector<double>{1, .1, 3, 4, 5});
  EXPECT_EQ(Import().manifest.columns, 1);
  EXPECT_EQ(GraphFolder::Open(import_.out).value().features()[1], 0.1F);
  import_.features = Npy("x.npy", NpyType::kFloat16, {5},
                         std::vector<uint16_t>{0x3c00, 0xc000, 0x0001, 0x7bff, 0x0000});
  Import();
  EXPECT_THAT(GraphFolder::Open(import_.out).value().features(),
              ElementsAre(1, -2, std::ldexp(1.0F, -24), 65504, 0));
  import_.features = Npy("x.npy", NpyType::kUint8, {5, 1}, std::vector<uint8_t>{1, 2, 3, 4, 255});
  Import();
  EXPECT_EQ(GraphFolder::Open(import_.out).value().features()[4], 255);
}

TEST_F(GraphImportTest, ReadsLabelsAsUsersHaveThem) {
  const double nan = std::nan("");
  import_.labels = Npy("y.npy", NpyType::kFloat64, {5, 1}, std::vector<double>{0, nan, 2, 1, nan});
  EXPECT_EQ(Import().manifest.labelled, 3);
  EXPECT_THAT(GraphFolder::Open(import_.out).value().labels(), ElementsAre(0, -1, 2, 1, -1));
  import_.labels = Npy("y.npy", NpyType::kInt64, {5}, std::vector<int64_t>{0, -1, 2, 1, -1});
  Import();
  EXPECT_THAT(GraphFolder::Open(import_.out).value().labels(), ElementsAre(0, -1, 2, 1, -1));
  import_.labels = Text("y.csv", "0.0\nnan\n2.0\n\n\n");
  // The last lines may be empty since the file ends, or since nodes are unlabelled.
  ExpectRefused("3 labels for 5 nodes");
  import_.labels = Text("y.csv", "0.0\n\n2.0\n1\nnan\n");
  Import();
  EXPECT_THAT(GraphFolder::Open(import_.out).value().labels(), ElementsAre(0, -1, 2, 1, -1));

  import_.labels = Npy("y.npy", NpyType::kFloat32, {5}, std::vector<float>{0, 1, .5, 1, 0});
  ExpectRefused("y.npy: row 2: the label 0.5 is not a whole number");
  import_.labels = Npy("y.npy", NpyType::kInt64, {5}, std::vector<int64_t>{0, 1, -2, 1, 0});
  ExpectRefused("y.npy: row 2: the label -2");
  import_.labels = Npy("y.npy", NpyType::kInt64, {5}, std::vector<int64_t>{0, 1, 65536, 1, 0});
  ExpectRefused("y.npy: row 2: the label 65536");
  import_.labels = Npy("y.npy", NpyType::kInt64, {5, 2}, std::vector<int64_t>(10));
  ExpectRefused("2 labels of each node");
  import_.labels = Npy("y.npy", NpyType::kInt64, {4}, std::vector<int64_t>(4));
  ExpectRefused("4 labels for 5 nodes");
  import_.labels = Npy("y.npy", NpyType::kInt64, {5}, std::vector<int64_t>(5, -1));
  ExpectRefused("every node is unlabelled");
}

TEST_F(GraphImportTest, ChecksClassesAndTheirNames) {
  import_.class_names = Text("names.txt", "left\nright\nupper\n").path;
  const GraphImportResult result = Import();
  EXPECT_EQ(result.manifest.classes, 3);
  EXPECT_THAT(result.manifest.class_names, ElementsAre("left", "right", "upper"));
  EXPECT_THAT(result.warnings.front(), HasSubstr("1 of 3 classes occur in no training node; the "
                                                 "first is upper"));
  import_.class_names = Text("names.txt", "left\n").path;
  ExpectRefused("labels.csv: line 2: the label 1 is not one of 1 classes");
  import_.class_names = Text("names.txt", "a\nb\na\n").path;
  ExpectRefused("\"a\" occurs twice");
  import_.class_names = Text("names.txt", "a\n\nb\n").path;
  ExpectRefused("names.txt: line 2");
  import_.class_names.clear();
  import_.classes = 7;
  EXPECT_EQ(Import().manifest.classes, 7);
  import_.classes = 1;
  ExpectRefused("is not one of 1 classes");
  import_.labels.reset();
  ExpectRefused("classes without labels");
  import_.classes = 0;
  EXPECT_EQ(Import().manifest.classes, 0);
  import_.feature_names = Text("columns.txt", "a\nb\n").path;
  EXPECT_THAT(Import().manifest.feature_names, ElementsAre("a", "b"));
  import_.feature_names = Text("columns.txt", "a\n").path;
  ExpectRefused("1 names for 2 columns");
}

TEST_F(GraphImportTest, ReadsMasksAndChecksSplits) {
  import_.train.nodes = Npy("train.npy", NpyType::kBool, {5}, std::vector<uint8_t>{1, 0, 1, 0, 0});
  import_.valid.nodes = Text("valid.csv", "0\n1\n0\n0\n0\n");
  Import();
  EXPECT_THAT(GraphFolder::Open(import_.out).value().train(), ElementsAre(0, 2));
  EXPECT_THAT(GraphFolder::Open(import_.out).value().valid(), ElementsAre(1));
  import_.valid.nodes = Text("valid.csv", "3\n2\n");
  ExpectRefused("valid.csv: line 2: the node 2 is already in train");
  import_.valid.nodes = Text("valid.csv", "3\n3\n");
  ExpectRefused("the node 3 is already in valid");
  import_.valid.nodes = Text("valid.csv", "");
  ExpectRefused("valid.csv: no node");
  import_.valid.nodes.reset();
  EXPECT_EQ(Import().manifest.valid, 0);
  import_.train.nodes = Npy("train.npy", NpyType::kBool, {4}, std::vector<uint8_t>{1, 0, 1, 0});
  ExpectRefused("a mask of 4 values for 5 nodes");
  import_.train.nodes = Text("train.csv", "0,1\n");
  ExpectRefused("2 columns, not one");
  import_.train.nodes = Npy("train.npy", NpyType::kInt64, {0}, std::vector<int64_t>());
  ExpectRefused("train.npy: no node");
  // Labels of some training nodes are unknown.
  import_.train.nodes = Text("train.csv", "2\n0\n");
  import_.labels = Text("y.csv", "-1\n1\n0\n1\n1\n");
  EXPECT_THAT(Import().warnings.front(), HasSubstr("1 of 2 training nodes are unlabelled"));
}

TEST_F(GraphImportTest, KeepsTheUsersIds) {
  import_.ids = Text("ids.txt", "libc6\npython3\nperl\nbash\nzlib1g\n").path;
  Import();
  EXPECT_EQ(GraphFolder::Open(import_.out).value().IdOf(0), "libc6");
  EXPECT_EQ(GraphFolder::Open(import_.out).value().IdOf(4), "zlib1g");
  import_.ids = Text("ids.txt", "10\n-3\n7\n9223372036854775807\n0\n").path;
  EXPECT_EQ(Import().manifest.ids, GraphIds::kNumbers);
  EXPECT_EQ(GraphFolder::Open(import_.out).value().IdOf(3), "9223372036854775807");
  // 007 and 7 are two ids.
  import_.ids = Text("ids.txt", "10\n007\n7\n8\n0").path;
  EXPECT_EQ(Import().manifest.ids, GraphIds::kTexts);
  EXPECT_EQ(GraphFolder::Open(import_.out).value().IdOf(1), "007");
  import_.ids = Npy("ids.npy", NpyType::kInt64, {5}, std::vector<int64_t>{5, 4, 3, 2, 1}).path;
  Import();
  EXPECT_EQ(GraphFolder::Open(import_.out).value().IdOf(1), "4");
  import_.ids = Text("ids.txt",
                     "\xef\xbb\xbf"
                     "a\r\nb\r\nc\r\nd\r\ne\r\n")
                    .path;
  Import();
  EXPECT_EQ(GraphFolder::Open(import_.out).value().IdOf(0), "a");
  import_.ids = Text("ids.txt", "a\nb\na\nc\nd\n").path;
  ExpectRefused("ids.txt: line 3: the id of line 1");
  import_.ids = Text("ids.txt", "a\nb\n").path;
  ExpectRefused("2 ids for 5 nodes");
  import_.ids = Npy("ids.npy", NpyType::kInt64, {5}, std::vector<int64_t>{5, 4, 3, 2, 5}).path;
  ExpectRefused("the id 5 occurs twice");
  import_.ids = Npy("ids.npy", NpyType::kInt64, {5, 2}, std::vector<int64_t>(10)).path;
  ExpectRefused("2 ids of each node");
}

TEST_F(GraphImportTest, RefusesAFolderThatExists) {
  Import();
  EXPECT_EQ(ImportGraph(*fs_, import_).status().code(), absl::StatusCode::kAlreadyExists);
  import_.nodes = 0;
  import_.out = dir_.Join("other");
  ExpectRefused("a graph of 0 nodes");
  import_.nodes = int64_t{1} << 32;
  ExpectRefused("4294967296 nodes");
}

}  // namespace
}  // namespace longhaul
