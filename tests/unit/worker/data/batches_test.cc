#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>

#include "absl/synchronization/notification.h"
#include "tests/testing/temp_dir.h"
#include "tests/unit/worker/data/data_files.h"
#include "worker/data/file_tokens.h"
#include "worker/data/prefetched_batches.h"
#include "worker/data/source.h"
#include "worker/data/token_batches.h"

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class CountingMaker : public BatchMaker {
 public:
  absl::StatusOr<ExampleBatch> Make(int64_t step) const override {
    if (gate != nullptr) gate->WaitForNotification();
    ++*made;
    if (step == 13) return absl::DataLossError("unlucky");
    return ExampleBatch{.tensors = {{"step", {1}, std::vector<int64_t>{step}}}, .examples = 1};
  }
  absl::StatusOr<ExampleBatch> MakeHeldOut(int64_t index, int64_t count) const override {
    return ExampleBatch{.tensors = {{"held out", {2}, std::vector<int64_t>{index, count}}},
                        .examples = 1};
  }
  absl::StatusOr<int64_t> HeldOutWeight(int64_t count) const override { return 10 * count; }
  std::atomic<int>* made = nullptr;
  absl::Notification* gate = nullptr;
};

int64_t StepOf(const absl::StatusOr<ExampleBatch>& batch) {
  return batch.ok() ? batch->tensors[0].As<int64_t>()[0] : -1;
}

TEST(ExampleBatchTest, TensorsHaveTheirOwnTypes) {
  const ExampleBatch batch{.tensors = {{"ids", {2}, std::vector<int64_t>{1, 2}},
                                       {"labels", {1}, std::vector<int32_t>{7}},
                                       {"features", {1, 2}, HugePageVector<float>{0.5f, 1}}},
                           .examples = 1};
  EXPECT_THAT(batch.Values("ids"), ElementsAre(1, 2));
  EXPECT_THAT(batch.Values<int32_t>("labels"), ElementsAre(7));
  EXPECT_THAT(batch.Values<float>("features"), ElementsAre(0.5f, 1));
  EXPECT_TRUE(batch.Values<float>("others").empty());
  EXPECT_DEATH(batch.Values<float>("ids"), "another type");
}

TEST(PrefetchedBatchesTest, TakesWhatWasPreparedAndWhatWasNot) {
  std::atomic<int> made = 0;
  auto maker = std::make_unique<CountingMaker>();
  maker->made = &made;
  PrefetchedBatches batches(std::move(maker));
  for (int64_t step = 1; step <= 12; ++step) {
    EXPECT_EQ(StepOf(batches.Take(step)), step);
    batches.Prepare(step + 1);
    EXPECT_THAT(batches.TakeHeldOut(3, 8)->tensors[0].As<int64_t>(), ElementsAre(3, 8));
  }
  EXPECT_EQ(batches.Take(13).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(made, 13) << "each once";
  batches.Prepare(14);
  batches.Prepare(15);
  EXPECT_EQ(StepOf(batches.Take(7)), 7) << "a jump";
  EXPECT_EQ(StepOf(batches.Take(15)), 15);
  batches.Prepare(16);
}

TEST(PrefetchedBatchesTest, DoesNotWaitForever) {
  std::atomic<int> made = 0;
  absl::Notification gate;
  auto maker = std::make_unique<CountingMaker>();
  maker->made = &made;
  maker->gate = &gate;
  PrefetchedBatches batches(std::move(maker), absl::Milliseconds(50));
  batches.Prepare(2);
  const absl::Status status = batches.Take(2).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("step 2"));
  gate.Notify();
  EXPECT_EQ(StepOf(batches.Take(2)), 2);
}

class TokenBatchesTest : public testing::Test {
 protected:
  static constexpr int64_t kContext = 8, kBatch = 5;

  TokenBatchesTest() {
    std::vector<int64_t> tokens(1000);
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = i;
    WriteBytes(dir_.Join("a.bin"), WordsOf<uint16_t>(tokens));
    for (int64_t& token : tokens) token += 1000;
    WriteBytes(dir_.Join("b.bin"), WordsOf<uint16_t>(tokens));
  }
  TokenBatches Make(int rank, int ranks, bool separate_documents = false) {
    std::vector<std::unique_ptr<Dataset>> datasets;
    for (const auto& [name, eos] : {std::pair("a.bin", 500), std::pair("b.bin", 1600)}) {
      SourceOptions source{.kind = SourceKind::kNanoGpt, .path = dir_.Join(name)};
      if (separate_documents) source.eos = eos;
      source.documents = separate_documents;
      datasets.push_back(OpenSource(source, 2000, {}).value());
    }
    const auto plan = ExamplePlan::Create({.sources = {{"a", 1000, 1}, {"b", 1000, 3}},
                                           .context = kContext,
                                           .batch = kBatch,
                                           .seed = 9})
                          .value();
    return TokenBatches({.context = kContext,
                         .batch = kBatch,
                         .rank = rank,
                         .ranks = ranks,
                         .separate_documents = separate_documents},
                        std::move(datasets), plan);
  }
  TempDir dir_;
};

// Somebody writes a new version in its place while a job trains on it.
TEST_F(TokenBatchesTest, AFileThatIsCutIsAnErrorWithItsName) {
  const TokenBatches batches = Make(0, 1, true);
  ASSERT_TRUE(batches.Make(1).ok());
  for (const char* name : {"a.bin", "b.bin"}) std::filesystem::resize_file(dir_.Join(name), 0);
  const absl::Status cut = batches.Make(2).status();
  EXPECT_TRUE(absl::IsDataLoss(cut)) << cut;
  EXPECT_THAT(std::string(cut.message()), HasSubstr(".bin ends at byte "));
}

TEST_F(TokenBatchesTest, RanksOfAnyNumberShareTheSameBatch) {
  for (int64_t step : {1, 2, 77}) {
    const ExampleBatch whole = Make(0, 1).Make(step).value();
    EXPECT_EQ(whole.examples, kBatch);
    EXPECT_THAT(whole.tensors[0].shape, ElementsAre(kBatch, kContext + 1));
    for (const int ranks : {2, 3, 7}) {
      std::vector<int64_t> joined;
      for (int rank = 0; rank < ranks; ++rank) {
        const ExampleBatch part = Make(rank, ranks).Make(step).value();
        const auto& values = part.tensors[0].As<int64_t>();
        EXPECT_EQ(static_cast<int64_t>(values.size()), part.examples * (kContext + 1));
        joined.insert(joined.end(), values.begin(), values.end());
      }
      EXPECT_EQ(joined, whole.tensors[0].As<int64_t>());
    }
  }
}

TEST_F(TokenBatchesTest, ExamplesAreWindowsOfBothSources) {
  int of_second = 0;
  for (int64_t step = 1; step <= 100; ++step) {
    const ExampleBatch batch = Make(0, 1).Make(step).value();
    for (int64_t i = 0; i < kBatch; ++i) {
      const int64_t* const example = &batch.tensors[0].As<int64_t>()[i * (kContext + 1)];
      for (int64_t k = 1; k <= kContext; ++k) EXPECT_EQ(example[k], example[0] + k);
      of_second += example[0] >= 1000;
    }
  }
  EXPECT_NEAR(of_second, 375, 40);
  const ExampleBatch held_out = Make(0, 1).MakeHeldOut(1, 2).value();
  for (int64_t i = 0; i < kBatch; ++i)
    EXPECT_GE(held_out.tensors[0].As<int64_t>()[i * (kContext + 1)] % 1000, 950);
}

// Each of the two sources has one border: behind 500, behind 1600.
TEST_F(TokenBatchesTest, SaysWhereDocumentsBegin) {
  const TokenBatches whole = Make(0, 1, true);
  int crossing = 0;
  const auto check = [&](const ExampleBatch& batch) {
    EXPECT_EQ(batch.tensors[1].name, "document_starts");
    EXPECT_THAT(batch.tensors[1].shape, ElementsAre(batch.examples, kContext));
    for (int64_t i = 0; i < batch.examples; ++i) {
      const int64_t* const tokens = &batch.tensors[0].As<int64_t>()[i * (kContext + 1)];
      const int64_t border = (tokens[0] < 1000 ? 501 : 1601) - tokens[0];  // In the example.
      const bool crosses = border > 0 && border < kContext;
      crossing += crosses;
      for (int64_t t = 0; t < kContext; ++t) {
        EXPECT_EQ(batch.tensors[1].As<int64_t>()[i * kContext + t],
                  crosses && t >= border ? border : 0);
      }
    }
  };
  for (int64_t step = 1; step <= 1000; ++step) check(whole.Make(step).value());
  EXPECT_GT(crossing, 10);
  check(whole.MakeHeldOut(0, 3).value());
  EXPECT_EQ(Make(0, 1).Make(1)->tensors.size(), 1);
  // Ranks share them as they share the tokens.
  std::vector<int64_t> joined;
  for (int rank = 0; rank < 3; ++rank) {
    const ExampleBatch part = Make(rank, 3, true).Make(1).value();
    joined.insert(joined.end(), part.tensors[1].As<int64_t>().begin(),
                  part.tensors[1].As<int64_t>().end());
  }
  EXPECT_EQ(joined, whole.Make(1)->tensors[1].As<int64_t>());
}

TEST_F(TokenBatchesTest, NoticesThatAFileChanged) {
  const TokenBatches batches = Make(0, 1);
  ASSERT_TRUE(batches.Make(1).ok());
  const std::string other = WordsOf<uint16_t>(std::vector<int64_t>(1000, 2000));
  std::fstream(dir_.Join("b.bin"), std::ios::in | std::ios::out | std::ios::binary) << other;
  const absl::Status status = batches.Make(1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(HasSubstr("b.bin: token "), HasSubstr("is 2000, not below")));
}

}  // namespace
}  // namespace longhaul
