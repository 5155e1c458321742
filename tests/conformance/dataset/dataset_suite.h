// What every Dataset promises. An implementation instantiates DatasetSuite with a dataset of the
// tokens (7 * i) % 251 for i below kTokens.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "worker/data/dataset.h"

namespace longhaul {

class DatasetSuite : public testing::TestWithParam<std::function<std::unique_ptr<Dataset>()>> {
 public:
  static constexpr int64_t kTokens = 1000;
  static int64_t Token(int64_t i) { return 7 * i % 251; }

 protected:
  static void ExpectTokens(const Dataset& dataset, int64_t first, int64_t count) {
    std::vector<int64_t> tokens(count, -1);
    ASSERT_TRUE(dataset.Read(first, absl::MakeSpan(tokens)).ok());
    for (int64_t i = 0; i < count; ++i)
      ASSERT_EQ(tokens[i], Token(first + i)) << first << " + " << i;
  }
};

TEST_P(DatasetSuite, ReadsAnyPart) {
  const auto dataset = GetParam()();
  ASSERT_EQ(dataset->tokens(), kTokens);
  ExpectTokens(*dataset, 0, kTokens);
  for (int64_t first = 0; first < kTokens; first += 37) {
    for (int64_t count : {0, 1, 2, 100})
      ExpectTokens(*dataset, first, std::min(count, kTokens - first));
  }
  ExpectTokens(*dataset, kTokens, 0);
}

TEST_P(DatasetSuite, TellsDocumentsInAnyPartAsInTheWhole) {
  const auto dataset = GetParam()();
  std::vector<int64_t> whole;
  ASSERT_TRUE(dataset->AppendDocumentStarts(0, kTokens, whole).ok());
  if (!whole.empty()) {
    EXPECT_EQ(whole.front(), 0);
  }
  for (const int64_t part : {1, 7, 333, 999}) {
    std::vector<int64_t> joined;
    for (int64_t first = 0; first < kTokens; first += part) {
      const int64_t end = std::min(first + part, kTokens);
      ASSERT_TRUE(dataset->AppendDocumentStarts(first, end, joined).ok());
      ASSERT_TRUE(dataset->AppendDocumentStarts(first, first, joined).ok());
    }
    EXPECT_EQ(joined, whole) << part;
  }
}

TEST_P(DatasetSuite, ReadingTwiceGivesTheSame) {
  const auto dataset = GetParam()();
  ExpectTokens(*dataset, 500, 20);
  ExpectTokens(*dataset, 3, 20);
  ExpectTokens(*dataset, 500, 20);
}

}  // namespace longhaul
