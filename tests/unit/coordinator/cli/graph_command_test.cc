// `longhaul graph` needs no server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cli_runner.h"
#include "tests/testing/temp_dir.h"

namespace longhaul::cli {
namespace {

using ::testing::HasSubstr;

class GraphCommandTest : public testing::Test {
 protected:
  GraphCommandTest() {
    Write("edges.csv", "0,1\n0,1\n2,1\n3,3\n");
    Write("features.csv", "0,1\n2,3\n4,5\n6,7\n");
    Write("labels.csv", "0\n1\n0\n1\n");
    Write("train.csv", "0\n1\n");
    Write("valid.csv", "2\n");
  }
  void Write(const std::string& name, const std::string& bytes) {
    std::ofstream(dir_.Join(name), std::ios::binary) << bytes;
  }
  CliResult Import(const std::vector<std::string>& more) {
    std::vector<std::string> words = {"graph",
                                      "import",
                                      "edges",
                                      "--nodes",
                                      "4",
                                      "--edges",
                                      dir_.Join("edges.csv"),
                                      "--features",
                                      dir_.Join("features.csv"),
                                      "--labels",
                                      dir_.Join("labels.csv"),
                                      "--train",
                                      dir_.Join("train.csv"),
                                      "--valid",
                                      dir_.Join("valid.csv"),
                                      "--out",
                                      dir_.Join("graph")};
    words.insert(words.end(), more.begin(), more.end());
    return run_(words);
  }
  TempDir dir_;
  CliRunner run_;
};

TEST_F(GraphCommandTest, ImportsAndShowsAGraph) {
  const CliResult imported = Import({"--directed", "-o", "json"});
  ASSERT_EQ(imported.exit, 0) << imported.err;
  const Json data = imported.envelope()["data"];
  EXPECT_EQ(data["edges"], 2);
  EXPECT_EQ(data["pairs_read"], 4);
  EXPECT_EQ(data["merged_duplicates"], 1);
  EXPECT_EQ(data["dropped_loops"], 1);
  EXPECT_EQ(data["direction"], "directed");
  EXPECT_THAT(data["warnings"][0], HasSubstr("75.0 % of the nodes have no in-edge"));
  const CliResult shown = run_({"graph", "info", dir_.Join("graph"), "-o", "json"});
  ASSERT_EQ(shown.exit, 0) << shown.err;
  EXPECT_EQ(shown.envelope()["data"], data);
  const CliResult table = run_({"graph", "info", dir_.Join("graph"), "--quick"});
  EXPECT_THAT(table.out, HasSubstr("as written (--directed)"));
  EXPECT_THAT(table.out, HasSubstr("not verified"));
  EXPECT_THAT(table.out, HasSubstr("Warning: 75.0 %"));
}

TEST_F(GraphCommandTest, ImportsPairs) {
  Write("pairs.csv", "1,2\n");
  CliResult result =
      Import({"--reverse-edges", "--valid-pairs", dir_.Join("pairs.csv"), "-o", "json"});
  ASSERT_EQ(result.exit, 0) << result.err;
  EXPECT_EQ(result.envelope()["data"]["valid_pairs"], 1);
  EXPECT_EQ(result.envelope()["data"]["held_out_edges"], 2);
  EXPECT_EQ(result.envelope()["data"]["edges"], 2);
  result = run_({"graph", "info", dir_.Join("graph")});
  EXPECT_THAT(result.out, HasSubstr("all edges, 1, 0"));
  std::filesystem::remove_all(dir_.Join("graph"));
  const std::vector<std::string> bare = {"graph",
                                         "import",
                                         "edges",
                                         "--nodes",
                                         "4",
                                         "--edges",
                                         dir_.Join("edges.csv"),
                                         "--features",
                                         dir_.Join("features.csv"),
                                         "--out",
                                         dir_.Join("graph"),
                                         "--reverse-edges"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), bare.begin(), bare.end());
    return run_(more);
  };
  result = with({});
  EXPECT_EQ(result.exit, 4);
  EXPECT_THAT(result.err, HasSubstr("--train is required"));
  EXPECT_THAT(result.err, HasSubstr("hint: give the nodes to train on, or for link prediction"));
  result = with({"--valid-share", "1.5"});
  EXPECT_EQ(result.exit, 4);
  EXPECT_THAT(result.err, HasSubstr("--valid-share"));
  for (const char* seed : {"-1", "x", "1.5", "99999999999999999999"}) {
    EXPECT_THAT(with({"--valid-share", "0.5", "--split-seed", seed}).err,
                HasSubstr("--split-seed: '" + std::string(seed) + "' is not a whole number"));
  }
  result = with({"--valid-share", "0.7", "--split-seed", "4", "-o", "json"});
  ASSERT_EQ(result.exit, 0) << result.err;
  EXPECT_EQ(result.envelope()["data"]["classes"], 0);
}

TEST_F(GraphCommandTest, AsksForTheDirection) {
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{}, {"--reverse-edges", "--directed"}}) {
    const CliResult result = Import(flags);
    EXPECT_EQ(result.exit, 4);
    EXPECT_THAT(result.err, HasSubstr("hint: give --reverse-edges"));
    EXPECT_FALSE(std::filesystem::exists(dir_.Join("graph")));
  }
}

TEST_F(GraphCommandTest, SaysWhatIsWrongWithAFile) {
  Write("edges.csv", "0,1\n9,1\n");
  CliResult result = Import({"--reverse-edges"});
  EXPECT_EQ(result.exit, 4);
  EXPECT_THAT(result.err, HasSubstr("edges.csv: line 2, column 1: the node 9 is not one of 4"));
  EXPECT_THAT(result.err, HasSubstr("hint: number nodes from 0"));
  Write("edges.csv", "0,1\n");
  ASSERT_EQ(Import({"--reverse-edges"}).exit, 0);
  EXPECT_THAT(Import({"--reverse-edges"}).err, HasSubstr("graph exists"));
  std::filesystem::resize_file(dir_.Join("graph/features.npy"), 100);
  result = run_({"graph", "info", dir_.Join("graph")});
  EXPECT_NE(result.exit, 0);
  EXPECT_THAT(result.err, HasSubstr("features.npy"));
  result = run_({"graph", "info", dir_.Join("absent"), "-o", "json"});
  EXPECT_EQ(result.exit, 4);
  EXPECT_EQ(result.envelope()["error"]["code"], "NOT_FOUND");
  EXPECT_THAT(result.envelope()["error"]["hint"], HasSubstr("longhaul graph import"));
  result = run_({"graph", "import", "ogb", dir_.Join("absent"), "--directed", "--out", "x"});
  EXPECT_THAT(result.err, HasSubstr("absent/raw does not exist"));
}

}  // namespace
}  // namespace longhaul::cli
