#include "worker/family/language/language_stager.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "ATen/ops/cat.h"
#include "ATen/ops/equal.h"

namespace longhaul {
namespace {

constexpr int64_t kContext = 4, kWidth = kContext + 1;

// Of five sequences.
ExampleBatch MakeBatch(bool documents, bool masked) {
  std::vector<int64_t> tokens(5 * kWidth);
  std::iota(tokens.begin(), tokens.end(), 100);
  ExampleBatch batch{.tensors = {{"tokens", {5, kWidth}, tokens}}, .examples = 5};
  std::vector<int64_t> starts(5 * kContext), mask(5 * kContext);
  for (int64_t i = 0; i < 5 * kContext; ++i) {
    starts[i] = i % kContext < 2 ? 0 : 2;
    mask[i] = i % 3 == 0 ? 1 : 0;
  }
  if (documents) batch.tensors.push_back({"document_starts", {5, kContext}, starts});
  if (masked) batch.tensors.push_back({"loss_mask", {5, kContext}, mask});
  return batch;
}

TEST(LanguageStagerTest, MicroBatchesAreEvenPartsOfTheSequences) {
  LanguageStager stager(kContext, at::kCPU);
  for (const bool documents : {false, true}) {
    for (const bool masked : {false, true}) {
      const ExampleBatch batch = MakeBatch(documents, masked);
      const StagedBatch whole = stager.Stage(batch, 0, 1).value();
      ASSERT_EQ(whole.examples, 5);
      ASSERT_EQ(whole.tensors.size(), kLanguageTensors);
      EXPECT_EQ(whole.tensors[kDocumentStarts].defined(), documents);
      EXPECT_EQ(whole.tensors[kLossMask].defined(), masked);
      EXPECT_FALSE(whole.tensors[kDocumentMask].defined());
      if (masked) EXPECT_EQ(whole.tensors[kLossMask].scalar_type(), at::kBool);
      EXPECT_EQ(whole.tensors[kInputs][1][0].item<int64_t>(), 100 + kWidth);
      EXPECT_EQ(whole.tensors[kTargets][1][0].item<int64_t>(), 101 + kWidth);
      for (const int of : {2, 3, 5, 7}) {
        std::vector<std::vector<at::Tensor>> parts(kLanguageTensors);
        for (int micro = 0; micro < of; ++micro) {
          const StagedBatch part = stager.Stage(batch, micro, of).value();
          EXPECT_EQ(part.examples, 5 / of + (micro < 5 % of ? 1 : 0));
          for (int t = 0; part.examples > 0 && t < kLanguageTensors; ++t)
            parts[t].push_back(part.tensors[t]);
        }
        for (const int t : {kInputs, kTargets, kDocumentStarts, kLossMask}) {
          if (!whole.tensors[t].defined()) continue;
          EXPECT_TRUE(at::equal(at::cat(parts[t]), whole.tensors[t])) << t << " of " << of;
        }
      }
    }
  }
}

TEST(LanguageStagerTest, OnACpuTokensAreNotCopied) {
  LanguageStager stager(kContext, at::kCPU);
  const ExampleBatch batch = MakeBatch(false, false);
  const StagedBatch second = stager.Stage(batch, 1, 2).value();
  EXPECT_EQ(second.tensors[kInputs].const_data_ptr<int64_t>(),
            batch.Values("tokens").data() + 3 * kWidth);
}

TEST(LanguageStagerTest, ARankMayHaveNoSequences) {
  LanguageStager stager(kContext, at::kCPU);
  EXPECT_EQ(stager.Stage({.tensors = {{"tokens", {0, kWidth}, std::vector<int64_t>()}}}, 0, 2)
                .value()
                .examples,
            0);
}

}  // namespace
}  // namespace longhaul
