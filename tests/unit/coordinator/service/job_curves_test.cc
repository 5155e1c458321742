#include "coordinator/service/job_curves.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/io/file_util.h"
#include "common/io/posix_filesystem.h"
#include "coordinator/service/message_size.h"
#include "gtest/gtest.h"
#include "tests/testing/temp_dir.h"

namespace longhaul::coordinator {
namespace {

class JobCurvesTest : public ::testing::Test {
 protected:
  void Write(const std::string& run, const std::string& text) {
    const std::string folder = JoinPath(track(), run);
    ASSERT_TRUE(CreateDirs(*fs_, folder).ok());
    ASSERT_TRUE(WriteFileAtomically(*fs_, JoinPath(folder, "scalars.jsonl"), text).ok());
  }
  v1::GetCurvesResponse Read(std::vector<std::string> names = {}) {
    v1::GetCurvesRequest request;
    request.mutable_names()->Add(names.begin(), names.end());
    const auto curves = ReadCurves(*fs_, track(), request);
    EXPECT_TRUE(curves.ok()) << curves.status();
    return curves.value_or(v1::GetCurvesResponse());
  }
  std::string track() const { return JoinPath(dir_.path(), "track"); }

  TempDir dir_;
  const std::unique_ptr<FileSystem> fs_ = MakePosixFileSystem();
};

TEST_F(JobCurvesTest, AJobThatHasNotStartedHasNone) { EXPECT_EQ(Read().curves_size(), 0); }

TEST_F(JobCurvesTest, ReadsWhatTheTracksHave) {
  Write("outer",
        "{\"step\":0,\"time\":10.5,\"spec\":\"name: a\"}\n"
        "{\"step\":10,\"time\":11.5,\"eval/loss\":3.5,\"bytes/up\":100}\n"
        "{\"step\":20,\"time\":12.5,\"eval/loss\":null}\n");
  Write("pool-site-a",
        "{\"step\":1,\"time\":1,\"train/loss\":5}\n"
        "{\"step\":8,\"time\":2,\"session\":\"x\",\"rewind\":true}\n"
        "{\"step\":30,\"time\":3,\"train/loss\":2}\nnot json\n[1]\n{\"step\":\"x\"}\n"
        "{\"step\":8,\"time\":4,\"train/loss\":4}\n{\"step\":9,\"time\":5,\"train/lo");
  Write("another", "{\"step\":1,\"x\":1}\n");
  const v1::GetCurvesResponse all = Read();
  ASSERT_EQ(all.curves_size(), 3);
  EXPECT_EQ(all.curves(0).pool(), "");
  EXPECT_EQ(all.curves(0).name(), "bytes/up");
  EXPECT_EQ(all.curves(1).name(), "eval/loss");
  EXPECT_EQ(all.curves(1).points(0).value(), 3.5);
  EXPECT_EQ(all.curves(1).points(0).time(), 11.5);
  EXPECT_TRUE(std::isnan(all.curves(1).points(1).value()));
  // The pool restarted from step 8: what it did after that does not count.
  EXPECT_EQ(all.curves(2).pool(), "site-a");
  ASSERT_EQ(all.curves(2).points_size(), 2);
  EXPECT_EQ(all.curves(2).points(1).step(), 8);
  EXPECT_EQ(all.curves(2).points(1).value(), 4);
  const v1::GetCurvesResponse some = Read({"train/loss", "unknown"});
  ASSERT_EQ(some.curves_size(), 1);
  EXPECT_EQ(some.curves(0).name(), "train/loss");
}

TEST_F(JobCurvesTest, LongCurvesAreThinnedWithTheirEnds) {
  std::string text;
  for (int step = 1; step <= 5000; ++step)
    absl::StrAppend(&text, "{\"step\":", step, ",\"time\":1,\"train/loss\":", step, "}\n");
  Write("pool-a", text);
  const auto curves = Read();
  ASSERT_EQ(curves.curves(0).points_size(), kCurvePointsMax);
  EXPECT_EQ(curves.curves(0).points(0).step(), 1);
  EXPECT_EQ(curves.curves(0).points(kCurvePointsMax - 1).step(), 5000);
  for (int i = 1; i < kCurvePointsMax; ++i) {
    const int64_t gap = curves.curves(0).points(i).step() - curves.curves(0).points(i - 1).step();
    EXPECT_TRUE(gap == 9 || gap == 10) << gap;
  }
}

TEST_F(JobCurvesTest, OfAHugeFilePartsAreReadEvenly) {
  std::string text;
  int steps = 0;
  while (text.size() < (20 << 20)) {
    ++steps;
    absl::StrAppend(&text, "{\"step\":", steps, ",\"time\":1,\"train/loss\":", steps, ",\"pad\":\"",
                    std::string(80, 'x'), "\"}\n");
  }
  Write("pool-a", text);
  const auto curves = Read();
  ASSERT_EQ(curves.curves_size(), 1);
  const v1::Curve& curve = curves.curves(0);
  ASSERT_EQ(curve.points_size(), kCurvePointsMax);
  EXPECT_EQ(curve.points(0).step(), 1);
  EXPECT_EQ(curve.points(kCurvePointsMax - 1).step(), steps);
  for (int i = 1; i < kCurvePointsMax; ++i) {
    EXPECT_EQ(curve.points(i).value(), curve.points(i).step());
    EXPECT_LT(curve.points(i).step() - curve.points(i - 1).step(), steps / 100);
  }
}

TEST_F(JobCurvesTest, ManyCurvesFitInAMessage) {
  for (int pool = 0; pool < 40; ++pool) {
    std::string text;
    for (int step = 1; step <= 600; ++step) {
      absl::StrAppend(&text, "{\"step\":", step, ",\"time\":1700000000.5");
      for (int name = 0; name < 12; ++name)
        absl::StrAppend(&text, ",\"n", name, "\":", step, ".25");
      text += "}\n";
    }
    Write(absl::StrCat("pool-p", pool), text);
  }
  const auto curves = Read();
  EXPECT_EQ(curves.curves_size(), 480);
  EXPECT_EQ(curves.left_out(), 0);
  EXPECT_LT(curves.ByteSizeLong(), kPageBytesMax);
  EXPECT_GE(curves.curves(479).points_size(), 100);
}

}  // namespace
}  // namespace longhaul::coordinator
