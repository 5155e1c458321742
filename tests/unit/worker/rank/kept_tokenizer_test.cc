#include "worker/rank/kept_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "common/hf/hf_tokenizer.h"
#include "common/io/sha256.h"
#include "common/rpc/server.h"
#include "longhaul/v1/sync.grpc.pb.h"
#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;

// Gives files in pieces of a few bytes, and fails now and then.
class TokenizerServer : public v1::SyncService::Service {
 public:
  TokenizerServer() { server_ = *Server::Start({.address = "127.0.0.1:0"}, {this}); }
  const std::string& address() const { return server_->address(); }

  grpc::Status GetTokenizer(grpc::ServerContext*, const v1::GetTokenizerRequest* request,
                            v1::GetTokenizerResponse* response) override {
    absl::MutexLock lock(&mutex);
    if (++calls % 3 == 2) return {grpc::StatusCode::UNAVAILABLE, "busy"};
    if (!request->file().empty()) {
      response->set_data(files[request->file()].substr(request->offset(), 5));
      return grpc::Status::OK;
    }
    for (const auto& [name, bytes] : files) {
      v1::TokenizerFile& file = *response->add_files();
      file.set_name(name);
      file.set_bytes(static_cast<int64_t>(bytes.size()));
      file.set_sha256(Sha256Hex(bytes));
    }
    for (const auto& [name, bytes] : replaced) files[name] = bytes;
    return grpc::Status::OK;
  }

  absl::Mutex mutex;
  std::map<std::string, std::string> files = {{"config.json", R"({"eos_token_id": 7})"},
                                              {"tokenizer.json", "a tokenizer of some bytes"}};
  // After the list was sent.
  std::map<std::string, std::string> replaced;
  int calls = 0;

 private:
  std::unique_ptr<Server> server_;
};

class RankTokenizerTest : public ::testing::Test {
 protected:
  RankTokenizerTest() {
    const TempDir folder;
    for (const auto& [name, bytes] : server_.files) std::ofstream(folder.Join(name)) << bytes;
    digest_ = DigestOfTokenizer(folder.path()).value();
  }
  absl::StatusOr<std::string> Bring() {
    return BringTokenizer({.coordinator = server_.address(),
                           .job = "1",
                           .pool = "site-a",
                           .incarnation = "x",
                           .digest = digest_,
                           .work_dir = work_.path()});
  }
  int calls() {
    absl::MutexLock lock(&server_.mutex);
    return server_.calls;
  }
  std::string Message() {
    const absl::StatusOr<std::string> folder = Bring();
    EXPECT_TRUE(absl::IsDataLoss(folder.status())) << folder.status();
    EXPECT_FALSE(std::filesystem::exists(work_.Join("tokenizers/" + digest_)));
    return std::string(folder.status().message());
  }

  TokenizerServer server_;
  const TempDir work_;
  std::string digest_;
};

TEST_F(RankTokenizerTest, ItIsBroughtOnceForAllRanksAndJobs) {
  std::vector<std::thread> ranks;
  for (int i = 0; i < 4; ++i) {
    ranks.emplace_back([&] {
      const absl::StatusOr<std::string> folder = Bring();
      ASSERT_TRUE(folder.ok()) << folder.status();
      EXPECT_EQ(*folder, work_.Join("tokenizers/" + digest_));
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(*DigestOfTokenizer(work_.Join("tokenizers/" + digest_)), digest_);
  const int before = calls();
  ASSERT_TRUE(Bring().ok());
  EXPECT_EQ(calls(), before);
  // One that the disk damaged is brought again.
  std::ofstream(work_.Join("tokenizers/" + digest_ + "/tokenizer.json")) << "x";
  ASSERT_TRUE(Bring().ok());
  EXPECT_GT(calls(), before);
  EXPECT_EQ(*DigestOfTokenizer(work_.Join("tokenizers/" + digest_)), digest_);
}

TEST_F(RankTokenizerTest, WhatIsNotTheTokenizerOfTheJobIsNotUsed) {
  server_.replaced = {{"tokenizer.json", "a tokenizer of more bytes than it had"}};
  EXPECT_THAT(Message(), HasSubstr("tokenizer.json has another digest than was said"));
  EXPECT_THAT(Message(), HasSubstr("the files are those of another tokenizer"));
  server_.replaced = {{"tokenizer.json", "short"}};
  EXPECT_THAT(Message(), HasSubstr("tokenizer.json has another size than was said"));
  server_.files = {{"../tokenizer.json", "x"}};
  server_.replaced.clear();
  EXPECT_THAT(Message(), HasSubstr("a file with an impossible name or size"));
  server_.files.clear();
  EXPECT_THAT(Message(), HasSubstr("a list of 0 files"));
}

TEST_F(RankTokenizerTest, OnesThatNobodyUsedForLongAreRemoved) {
  const std::string old = work_.Join("tokenizers/" + std::string(64, 'a')),
                    used = work_.Join("tokenizers/" + std::string(64, 'b'));
  for (const std::string& folder : {old, used}) std::filesystem::create_directories(folder);
  std::filesystem::last_write_time(
      old, std::filesystem::file_time_type::clock::now() - std::chrono::hours(8 * 24));
  ASSERT_TRUE(Bring().ok());
  EXPECT_FALSE(std::filesystem::exists(old));
  EXPECT_TRUE(std::filesystem::exists(used));
}

}  // namespace
}  // namespace longhaul
