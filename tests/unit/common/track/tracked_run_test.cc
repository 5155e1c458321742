#include "common/track/tracked_run.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/io/file_util.h"
#include "common/track/record.h"
#include "gtest/gtest.h"
#include "longhaul/track/v1/event.pb.h"
#include "nlohmann/json.hpp"
#include "tests/testing/failing_filesystem.h"
#include "tests/testing/memory_filesystem.h"

namespace longhaul {
namespace {

const absl::Time kBegin = absl::FromUnixSeconds(1'800'000'000);

class TrackedRunTest : public testing::Test {
 protected:
  TrackedRunTest() { Open(); }
  // Opens the run as a later start of the program does.
  void Open(absl::Time now = kBegin) {
    auto run = TrackedRun::Open(&fs_, "run", now);
    ASSERT_TRUE(run.ok()) << run.status();
    run_ = *std::move(run);
  }
  std::vector<std::string> EventFiles() {
    std::vector<std::string> names = *base_.List("run");
    std::erase(names, "scalars.jsonl");
    return names;
  }
  std::vector<track::v1::Event> Events() {
    std::vector<track::v1::Event> events;
    for (const std::string& name : EventFiles()) {
      const std::unique_ptr<File> file = *base_.Open(JoinPath("run", name));
      EXPECT_TRUE(ReadRecords(*file, [&](absl::string_view record) {
                    EXPECT_TRUE(events.emplace_back().ParseFromString(std::string(record)));
                  }).ok());
    }
    return events;
  }
  // "tag step" for every scalar, and "< step" where the run was rewound.
  std::vector<std::string> Story() {
    std::vector<std::string> story;
    for (const track::v1::Event& event : Events()) {
      if (event.has_session_log()) story.push_back(absl::StrCat("< ", event.step()));
      for (const auto& value : event.summary().value())
        story.push_back(absl::StrCat(value.tag(), " ", event.step()));
    }
    return story;
  }
  // The same for the JSON lines.
  std::vector<std::string> Lines() {
    std::vector<std::string> story;
    const std::string text = *ReadFile(base_, "run/scalars.jsonl", 1 << 20);
    EXPECT_TRUE(text.empty() || text.back() == '\n');
    for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      const auto parsed = nlohmann::ordered_json::parse(line);
      if (parsed.contains("rewind")) story.push_back(absl::StrCat("< ", parsed["step"].get<int>()));
      for (const auto& [name, value] : parsed.items()) {
        if (name != "step" && name != "time" && name != "rewind" && name != "session")
          story.push_back(absl::StrCat(name, " ", parsed["step"].get<int>()));
      }
    }
    return story;
  }
  static TrackedStep At(int64_t step, std::vector<Scalar> scalars = {{"loss", 2.5}},
                        double seconds = 0) {
    return {step, kBegin + absl::Seconds(seconds), std::move(scalars)};
  }

  MemoryFileSystem base_;
  FailingFileSystem fs_{&base_};
  std::unique_ptr<TrackedRun> run_;
};

TEST_F(TrackedRunTest, WritesBothFiles) {
  ASSERT_TRUE(run_->AddText(kBegin, "spec", "name: x").ok());
  ASSERT_TRUE(run_->Add(At(3, {{"loss", 2.5}, {"norm", NAN}})).ok());
  ASSERT_EQ(EventFiles(), std::vector<std::string>{"events.out.tfevents.1800000000.longhaul"});
  const std::vector<track::v1::Event> events = Events();
  ASSERT_EQ(events.size(), 3);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_EQ(events[1].summary().value(0).tensor().string_val(0), "```\nname: x\n```");
  EXPECT_EQ(events[2].summary().value(0).simple_value(), 2.5);
  EXPECT_EQ(events[2].wall_time(), 1'800'000'000);
  EXPECT_EQ(*ReadFile(base_, "run/scalars.jsonl", 1 << 20),
            "{\"step\":0,\"time\":1800000000.0,\"spec\":\"name: x\"}\n"
            "{\"step\":3,\"time\":1800000000.0,\"loss\":2.5,\"norm\":null}\n");
}

TEST_F(TrackedRunTest, ALaterStartWritesNothingTwice) {
  ASSERT_TRUE(run_->Add(At(1, {{"loss", 1}, {"norm", 1}})).ok());
  ASSERT_TRUE(run_->Add(At(2, {{"loss", 1}, {"norm", 1}})).ok());
  Open(kBegin + absl::Hours(1));
  for (int step = 1; step <= 3; ++step)
    ASSERT_TRUE(run_->Add(At(step, {{"loss", 1}, {"norm", 1}})).ok());
  const std::vector<std::string> expected = {"loss 1", "norm 1", "loss 2",
                                             "norm 2", "loss 3", "norm 3"};
  EXPECT_EQ(Story(), expected);
  EXPECT_EQ(Lines(), expected);
  EXPECT_EQ(EventFiles().size(), 1);
}

TEST_F(TrackedRunTest, StepsMayComeSomewhatOutOfOrder) {
  for (int step : {20, 40, 30, 40, 20}) ASSERT_TRUE(run_->Add(At(step)).ok());
  Open();
  for (int step : {10, 20, 30, 40}) ASSERT_TRUE(run_->Add(At(step)).ok());
  const std::vector<std::string> expected = {"loss 20", "loss 40", "loss 30", "loss 10"};
  EXPECT_EQ(Story(), expected);
  EXPECT_EQ(Lines(), expected);
  for (int step = 41; step < 1000; ++step) ASSERT_TRUE(run_->Add(At(step)).ok());
  ASSERT_TRUE(run_->Add(At(11)).ok());
  EXPECT_EQ(Story().back(), "loss 999") << "what is long ago counts as written";
}

TEST_F(TrackedRunTest, ATrainingThatBeginsAgainVoidsLaterPoints) {
  for (int step : {4, 5, 6})
    ASSERT_TRUE(run_->AddSometimes("a", absl::ZeroDuration(), At(step)).ok());
  Open();
  ASSERT_TRUE(run_->AddSometimes("b", absl::ZeroDuration(), At(5)).ok());
  Open();
  ASSERT_TRUE(run_->AddSometimes("c", absl::ZeroDuration(), At(6)).ok());
  const std::vector<std::string> expected = {"loss 4", "loss 5", "loss 6",
                                             "< 5",    "loss 5", "loss 6"};
  EXPECT_EQ(Story(), expected);
  EXPECT_EQ(Lines(), expected);
}

TEST_F(TrackedRunTest, ATrainingThatContinuesAfterARestartVoidsNothing) {
  ASSERT_TRUE(run_->AddSometimes("a", absl::ZeroDuration(), At(4)).ok());
  ASSERT_TRUE(run_->Add(At(6, {{"eval", 2.5}})).ok());
  Open();
  ASSERT_TRUE(run_->AddSometimes("a", absl::ZeroDuration(), At(5)).ok());
  const std::vector<std::string> expected = {"loss 4", "eval 6", "loss 5"};
  EXPECT_EQ(Story(), expected);
  EXPECT_EQ(Lines(), expected);
}

TEST_F(TrackedRunTest, ATornRecordIsCutOff) {
  ASSERT_TRUE(run_->Add(At(1)).ok());
  const std::vector<std::string> names = *base_.List("run");
  for (const std::string& name : names) {
    const std::unique_ptr<File> file = *base_.Open(JoinPath("run", name));
    ASSERT_TRUE(file->Append("{\"step\":9,\"loss\":1").ok());
  }
  Open();
  ASSERT_TRUE(run_->Add(At(2)).ok());
  EXPECT_EQ(Story(), (std::vector<std::string>{"loss 1", "loss 2"}));
  EXPECT_EQ(Lines(), (std::vector<std::string>{"loss 1", "loss 2"}));
}

TEST_F(TrackedRunTest, AFailedWriteIsRepeated) {
  ASSERT_TRUE(run_->Add(At(1)).ok());
  for (int64_t index = 0; index < 2; ++index) {
    fs_.FailOnce(fs_.operations() + index, absl::ResourceExhaustedError("full"));
    EXPECT_FALSE(run_->Add(At(2 + index)).ok());
    EXPECT_TRUE(run_->Add(At(2 + index)).ok());
  }
  EXPECT_EQ(Story(), (std::vector<std::string>{"loss 1", "loss 2", "loss 3"}));
  EXPECT_EQ(Lines(), (std::vector<std::string>{"loss 1", "loss 2", "loss 3"}));
}

// TensorBoard continues with the next file in the order of names.
TEST_F(TrackedRunTest, ADamagedFileIsFollowedByAnother) {
  ASSERT_TRUE(run_->Add(At(1)).ok());
  ASSERT_TRUE((*base_.Open(JoinPath("run", EventFiles()[0])))->WriteAt(0, "damaged").ok());
  Open(kBegin - absl::Hours(1));
  ASSERT_TRUE(run_->Add(At(2)).ok());
  EXPECT_EQ(EventFiles()[1], "events.out.tfevents.1800000001.longhaul");
  EXPECT_EQ(Story(), (std::vector<std::string>{"loss 2"}));
}

TEST_F(TrackedRunTest, WritesFrequentPointsOnlySometimes) {
  for (int step = 1; step <= 25; ++step) {
    ASSERT_TRUE(
        run_->AddSometimes("a", absl::Seconds(1), At(step, {{"loss", 1}}, step * 0.1)).ok());
  }
  EXPECT_EQ(Story(), (std::vector<std::string>{"loss 1", "loss 11", "loss 21"}));
  ASSERT_TRUE(run_->Flush().ok());
  ASSERT_TRUE(run_->Flush().ok());
  EXPECT_EQ(Story(), (std::vector<std::string>{"loss 1", "loss 11", "loss 21", "loss 25"}));
  // A run of this age skips points that are a second apart: here a hundred of them.
  const double old = 1e6;
  for (int step = 100; step < 301; ++step)
    ASSERT_TRUE(
        run_->AddSometimes("a", absl::Seconds(1), At(step, {{"loss", 1}}, old + step)).ok());
  EXPECT_EQ(Story().size(), 4 + 2);
}

TEST_F(TrackedRunTest, MakesOnlyItsFolderAndTheParent) {
  EXPECT_TRUE(TrackedRun::Open(&fs_, "track/run", kBegin).ok());
  EXPECT_TRUE(absl::IsNotFound(TrackedRun::Open(&fs_, "job/track/run", kBegin).status()));
}

}  // namespace
}  // namespace longhaul
