#include "worker/agent/site.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "absl/strings/match.h"
#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;

// What PrepareSite says of a worker that has no folder of its own for tokens.
absl::Status Prepared(const std::string& work_dir) {
  AgentOptions options;
  options.pool = "site-a";
  options.coordinator = "localhost:7070";
  options.data_dir = fs::temp_directory_path();
  options.work_dir = work_dir;
  options.rank_program = "/nowhere";
  return PrepareSite({.work_dir_in_temp = true}, options);
}

TEST(SiteTest, AFolderForTokensThatOthersMayHaveMadeIsNotUsed) {
  const TempDir temp;
  const auto refused = [](const absl::Status& status) {
    return absl::IsFailedPrecondition(status) && absl::StartsWith(status.message(), "--work-dir: ");
  };
  fs::create_directory(temp.Join("open"));
  fs::permissions(temp.Join("open"), fs::perms(0777));
  EXPECT_TRUE(refused(Prepared(temp.Join("open"))));
  fs::create_directory(temp.Join("elsewhere"));
  fs::create_directory_symlink(temp.Join("elsewhere"), temp.Join("link"));
  EXPECT_TRUE(refused(Prepared(temp.Join("link"))));
  // One that it made itself.
  for (int start = 0; start < 2; ++start) EXPECT_FALSE(refused(Prepared(temp.Join("own"))));
  EXPECT_EQ(fs::status(temp.Join("own")).permissions(), fs::perms(0700));
}

// As the coordinator makes its --data-dir.
TEST(SiteTest, WhyAFolderOrAProgramCannotBeUsedIsNamed) {
  const TempDir folder;
  std::ofstream(folder.Join("file")) << "x";
  const absl::Status work = Prepared(folder.Join("file/work"));
  EXPECT_THAT(std::string(work.message()), testing::HasSubstr("/work cannot be made: Not a dir"));
  const absl::Status program = Prepared(folder.Join("work"));
  EXPECT_THAT(std::string(program.message()),
              testing::HasSubstr("--rank-program: /nowhere is not an executable program: No such"));
}

TEST(SiteTest, ACurrentFolderThatIsNotThereIsNamed) {
  AgentOptions options;
  options.pool = "site-a";
  options.coordinator = "localhost:7070";
  const absl::Status status = PrepareSite({}, options);
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("current folder"));
}

TEST(SiteTest, FoldersForStateAndCurvesAreMade) {
  const TempDir temp;
  const auto prepared = [&](const std::string& state, const std::string& track) {
    AgentOptions options;
    options.pool = "site-a";
    options.coordinator = "localhost:7070";
    options.data_dir = temp.path();
    options.work_dir = temp.path();
    options.state_dir = temp.Join(state);
    options.track_dir = temp.Join(track);
    options.rank_program = "/nowhere";
    return std::string(PrepareSite({}, options).message());
  };
  std::ofstream(temp.Join("file")) << "x";
  EXPECT_THAT(prepared("file/state", "track"), testing::StartsWith("--state-dir: "));
  EXPECT_THAT(prepared("state", "file"), testing::StartsWith("--track-dir: "));
  EXPECT_THAT(prepared("a/state", "b/track"), testing::StartsWith("--rank-program: "));
  EXPECT_TRUE(fs::is_directory(temp.Join("a/state")) && fs::is_directory(temp.Join("b/track")));
}

// What PrepareSite says of a worker whose folders and program are there.
std::string WordsOn(const std::function<void(AgentOptions&, SiteChoice&)>& change) {
  const TempDir temp;
  // With threads no core is measured.
  SiteChoice choice{.threads = 1};
  AgentOptions options;
  options.pool = "site-a";
  options.coordinator = "localhost:7070";
  options.data_dir = options.work_dir = temp.path();
  options.rank_program = "/bin/true";
  options.ranks = 1;
  change(options, choice);
  return std::string(PrepareSite(choice, options).message());
}

TEST(SiteTest, AFlagThatCannotBeUsedIsNamed) {
  using testing::StartsWith;
  EXPECT_EQ(WordsOn([](AgentOptions&, SiteChoice&) {}), "");
  // Also one that only several nodes need.
  for (const int nodes : {1, 2}) {
    const auto with = [&](const std::string& address) {
      return WordsOn([&](AgentOptions& options, SiteChoice& choice) {
        choice.nodes = nodes;
        options.in_pool_address = address;
      });
    };
    EXPECT_EQ(with("127.0.0.1"), "");
    EXPECT_THAT(with("nowhere"), StartsWith("--in-pool-address: 'nowhere' is not a numeric"));
    EXPECT_THAT(with("192.0.2.1"), StartsWith("--in-pool-address: 192.0.2.1 is not an address of"));
  }
  // No machine has so many GPUs.
  EXPECT_THAT(WordsOn([](AgentOptions& options, SiteChoice&) {
                options.device = v1::CUDA;
                options.ranks = 256;
              }),
              StartsWith("--device cuda: "));
}

}  // namespace
}  // namespace longhaul
