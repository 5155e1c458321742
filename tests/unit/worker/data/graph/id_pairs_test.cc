#include "worker/data/graph/id_pairs.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status_hint.h"
#include "common/io/posix_filesystem.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/number_files.h"
#include "tests/testing/temp_dir.h"
#include "worker/data/graph/graph_import.h"

namespace longhaul {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_support::Gzipped;
using testing_support::WriteBytes;
using testing_support::WriteNpy;

// Pairs of a graph of three nodes whose ids are given as a text file, or not at all.
class IdPairsTest : public ::testing::Test {
 protected:
  void Import(const std::string& ids) {
    GraphImport import;
    import.nodes = 3;
    import.edges = {{ WriteBytes(dir_.Join("edges.csv"), "0,1\n1,2\n"), "" }};
    import.features = {WriteBytes(dir_.Join("features.csv"), "1\n2\n3\n"), ""};
    if (!ids.empty()) import.ids = WriteBytes(dir_.Join("ids.txt"), ids);
    import.out = dir_.Join("graph");
    ASSERT_TRUE(ImportGraph(*MakePosixFileSystem(), import).ok());
    graph_ = std::make_unique<GraphFolder>(GraphFolder::Open(import.out).value());
  }
  std::vector<NodePair> Read(const std::string& path) {
    const auto pairs = ReadIdPairs(path, *graph_);
    EXPECT_TRUE(pairs.ok()) << pairs.status();
    return pairs.ok() ? *pairs : std::vector<NodePair>();
  }
  std::vector<NodePair> ReadText(const std::string& text) {
    return Read(WriteBytes(dir_.Join("pairs.csv"), text));
  }
  // "MESSAGE | HINT", without the folder.
  std::string Refusal(const std::string& path) {
    const absl::Status status = ReadIdPairs(path, *graph_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    const std::string message(status.message());
    return message.substr(message.find(dir_.path()) == 0 ? dir_.path().size() + 1 : 0) + " | " +
           HintIn(status);
  }
  std::string RefusalOfText(const std::string& text) {
    return Refusal(WriteBytes(dir_.Join("pairs.csv"), text));
  }
  template <typename T>
  std::string Npy(NpyType type, const std::vector<int64_t>& shape, const std::vector<T>& values) {
    return WriteNpy(dir_.Join("pairs.npy"), type, shape, values);
  }

  TempDir dir_;
  std::unique_ptr<GraphFolder> graph_;
};

TEST_F(IdPairsTest, WithoutIdsTheyAreNumbersOfNodes) {
  Import("");
  EXPECT_THAT(ReadText("0,2\n2,1\n1,1\n"),
              ElementsAre(NodePair{0, 2}, NodePair{2, 1}, NodePair{1, 1}));
  EXPECT_THAT(Read(Npy<int32_t>(NpyType::kInt32, {2, 3}, {0, 2, 1, 2, 1, 0})),
              ElementsAre(NodePair{0, 2}, NodePair{2, 1}, NodePair{1, 0}));
  EXPECT_THAT(Read(WriteBytes(dir_.Join("pairs.csv.gz"), Gzipped("0,2\n"))),
              ElementsAre(NodePair{0, 2}));
  EXPECT_EQ(RefusalOfText("0,1\n0,3\n"),
            "pairs.csv: line 2, column 2: the graph has no node \"3\" | the graph was imported "
            "without --ids: give numbers of nodes, from 0 to 2");
  EXPECT_THAT(Refusal(Npy<int64_t>(NpyType::kInt64, {3, 2}, {0, 1, -1, 1, 0, 0})),
              HasSubstr("pairs.npy: row 1, column 0: the graph has no node \"-1\""));
  EXPECT_THAT(Refusal(Npy<int64_t>(NpyType::kInt64, {2, 3}, {0, 1, 1, 0, 1, 1LL << 40})),
              HasSubstr("pairs.npy: row 1, column 2: the graph has no node \"1099511627776\""));
}

TEST_F(IdPairsTest, NumbersAreTheUsersOwn) {
  Import("700\n-5\n1\n");
  const std::vector<NodePair> pairs = {{0, 1}, {2, 0}};
  EXPECT_EQ(ReadText("700,-5\n1,700\n"), pairs);
  EXPECT_EQ(Read(Npy<int64_t>(NpyType::kInt64, {2, 2}, {700, -5, 1, 700})), pairs);
  // A number of a node is no id of one.
  EXPECT_EQ(RefusalOfText("700,0\n"),
            "pairs.csv: line 1, column 2: the graph has no node \"0\" | give ids as the import "
            "read them (--ids)");
}

TEST_F(IdPairsTest, TextsMayBeQuoted) {
  Import("a,b\nsay \"hi\"\n17\n");
  const std::vector<NodePair> pairs = {{0, 1}, {2, 0}};
  EXPECT_EQ(ReadText("\"a,b\",\"say \"\"hi\"\"\"\r\n17,\"a,b\"\n\n\n"), pairs);
  EXPECT_EQ(Read(WriteBytes(dir_.Join("pairs.csv.gz"), Gzipped("17,17"))),
            (std::vector<NodePair>{{2, 2}}));
  // An array has no texts, but ids may look like numbers.
  EXPECT_EQ(Read(Npy<int64_t>(NpyType::kInt64, {1, 2}, {17, 17})), (std::vector<NodePair>{{2, 2}}));
  EXPECT_THAT(Refusal(Npy<int64_t>(NpyType::kInt64, {1, 2}, {17, 0})),
              HasSubstr("pairs.npy: row 0, column 1: the graph has no node \"0\""));
  EXPECT_EQ(RefusalOfText("source,target\n17,17\n"),
            "pairs.csv: line 1, column 1: the graph has no node \"source\" | give ids as the "
            "import read them (--ids), without a heading");
  EXPECT_EQ(RefusalOfText("17,17\n17,\"a\\b\"\n"),
            "pairs.csv: line 2, column 2: the graph has no node \"a\\\\b\" | give ids as the "
            "import read them (--ids)");
  for (const char* const line :
       {"17", "17,17,17", "17,", "\"17", "17,\"a,b", "\"17\" ,17", "", "17,\"", "\"\"\",17"}) {
    EXPECT_THAT(RefusalOfText(std::string("17,17\n") + line + "\n17,17\n"),
                HasSubstr("pairs.csv: line 2"))
        << line;
  }
}

TEST_F(IdPairsTest, WhatHasNoPairsIsRefused) {
  for (const char* const ids : {"", "a\nb\nc\n"}) {
    Import(ids);
    std::filesystem::remove_all(dir_.Join("graph"));
    EXPECT_THAT(RefusalOfText(""), HasSubstr("no pair"));
    EXPECT_THAT(Refusal(Npy<int64_t>(NpyType::kInt64, {0, 2}, {})), HasSubstr("no pair"));
    EXPECT_THAT(Refusal(Npy<int64_t>(NpyType::kInt64, {1, 3}, {0, 1, 2})),
                HasSubstr("(1, 3), 3 columns, not two | give pairs source, target"));
    EXPECT_THAT(Refusal(Npy<int64_t>(NpyType::kInt64, {4}, {0, 1, 2, 0})),
                HasSubstr("(4,), 1 column, not two"));
    EXPECT_THAT(Refusal(Npy<float>(NpyType::kFloat32, {1, 2}, {0, 1})), HasSubstr("float32"));
    EXPECT_EQ(ReadIdPairs(dir_.Join("nothing"), *graph_).status().code(),
              absl::StatusCode::kNotFound);
  }
  Import("");
  EXPECT_THAT(RefusalOfText("0,1,2\n"), HasSubstr("3 columns, not two"));
  EXPECT_THAT(RefusalOfText("0,x\n"), HasSubstr("line 1, column 2"));
}

}  // namespace
}  // namespace longhaul
