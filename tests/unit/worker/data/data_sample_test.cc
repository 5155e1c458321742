#include "worker/data/data_sample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "tests/testing/temp_dir.h"
#include "tests/unit/worker/data/data_files.h"
#include "worker/data/source.h"

namespace longhaul {
namespace {

class DataSampleTest : public testing::Test {
 protected:
  // Of a folder with these files, in the order of their names.
  uint64_t SampleOfFiles(const std::vector<std::vector<int64_t>>& files) {
    const std::string folder = dir_.Join(std::to_string(folders_++));
    std::filesystem::create_directories(folder);
    for (size_t i = 0; i < files.size(); ++i)
      WriteBytes(folder + "/" + std::to_string(i) + ".bin", WordsOf<uint16_t>(files[i]));
    const auto data = OpenSource({.kind = SourceKind::kNanoGpt, .path = folder}, 1 << 16, {});
    EXPECT_TRUE(data.ok()) << data.status();
    return SampleOf(**data).value();
  }

  TempDir dir_;
  int folders_ = 0;
};

std::vector<int64_t> Ascending(int64_t count, int64_t first) {
  std::vector<int64_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

TEST_F(DataSampleTest, IsOfTheTokensAndNotOfTheirFiles) {
  const std::vector<int64_t> a = Ascending(1000, 0), b = Ascending(1000, 5000);
  std::vector<int64_t> both = a;
  both.insert(both.end(), b.begin(), b.end());
  EXPECT_EQ(SampleOfFiles({a, b}), SampleOfFiles({both}));
  const std::set<uint64_t> samples = {SampleOfFiles({a, b}), SampleOfFiles({b, a}),
                                      SampleOfFiles({a, a}), SampleOfFiles({b, b})};
  EXPECT_EQ(samples.size(), 4u);
}

TEST_F(DataSampleTest, SeesTheEnds) {
  const std::vector<int64_t> tokens = Ascending(10'000, 0);
  std::vector<int64_t> first = tokens, last = tokens;
  first.front() = last.back() = 7;
  EXPECT_NE(SampleOfFiles({first}), SampleOfFiles({tokens}));
  EXPECT_NE(SampleOfFiles({last}), SampleOfFiles({tokens}));
}

TEST_F(DataSampleTest, TakesShortDataWhole) {
  EXPECT_EQ(SampleOfFiles({{3}}), SampleOfFiles({{3}}));
  EXPECT_NE(SampleOfFiles({{3}}), SampleOfFiles({{4}}));
  EXPECT_NE(SampleOfFiles({{1, 2, 3, 4, 5}}), SampleOfFiles({{1, 2, 3, 5, 5}}));
}

}  // namespace
}  // namespace longhaul
