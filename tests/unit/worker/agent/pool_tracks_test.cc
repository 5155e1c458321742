#include "worker/agent/pool_tracks.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>

#include "common/io/posix_filesystem.h"
#include "gtest/gtest.h"
#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

class PoolTracksTest : public testing::Test {
 protected:
  static v1::Assignment Job(const std::string& id) {
    v1::Assignment job;
    job.set_job_id(id);
    job.mutable_spec()->set_name("tiny");
    return job;
  }
  std::set<std::string> Files() {
    std::set<std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
      if (entry.path().extension() == ".jsonl")
        files.insert(entry.path().lexically_relative(folder_.path()).string());
    }
    return files;
  }
  std::string Text(const std::string& name) {
    std::ifstream file(folder_.Join(name));
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  TempDir folder_;
  const std::unique_ptr<FileSystem> fs_ = MakePosixFileSystem();
};

TEST_F(PoolTracksTest, WritesWhatThePoolReports) {
  {
    PoolTracks tracks(folder_.path(), "west", fs_.get(), Logger({}));
    v1::PoolProgress progress;
    progress.set_inner_step(3);
    progress.set_learning_rate(0.5);
    tracks.Progressed(Job("1-a"), "1", progress);
    v1::Evaluation evaluation;
    evaluation.set_step(3);
    evaluation.set_loss(0);
    tracks.Evaluated(Job("1-a"), evaluation);
    evaluation.set_of_pool(true);
    tracks.Evaluated(Job("1-a"), evaluation);
    tracks.Close();
  }
  EXPECT_EQ(Files(), (std::set<std::string>{"tiny-1-a/outer/scalars.jsonl",
                                            "tiny-1-a/pool-west/scalars.jsonl"}));
  const std::string of_pool = Text("tiny-1-a/pool-west/scalars.jsonl");
  EXPECT_NE(of_pool.find("\"train/learning_rate\":0.5"), std::string::npos) << of_pool;
  EXPECT_NE(of_pool.find("\"eval/perplexity\":1.0"), std::string::npos) << of_pool;
}

TEST_F(PoolTracksTest, ACoordinatorCannotNameAPath) {
  {
    PoolTracks tracks(folder_.path(), "west", fs_.get(), Logger({}));
    v1::PoolProgress progress;
    progress.set_inner_step(1);
    tracks.Progressed(Job("/../../x"), "1", progress);
    tracks.Progressed(Job(std::string(5000, 'y')), "1", progress);
  }
  EXPECT_EQ(Files().size(), 2u);
  EXPECT_TRUE(Files().contains("tiny-_______x/pool-west/scalars.jsonl"));
}

TEST_F(PoolTracksTest, WithoutAFolderNothingIsWritten) {
  PoolTracks tracks("", "west", fs_.get(), Logger({}));
  v1::PoolProgress progress;
  progress.set_inner_step(1);
  tracks.Progressed(Job("1"), "1", progress);
  tracks.Close();
  EXPECT_TRUE(Files().empty());
}

}  // namespace
}  // namespace longhaul
