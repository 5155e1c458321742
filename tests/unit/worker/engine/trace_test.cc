#include "worker/engine/trace.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "absl/time/clock.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

std::string ContentsOf(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(TraceTest, WritesSpansOfBothTracks) {
  const std::string path = testing::TempDir() + "/trace_test.json";
  {
    const auto trace = Trace::Create(path, 3).value();
    const Trace::Span outer(trace.get(), Trace::Track::kCompute, "forward layer 0");
    const Trace::Span inner(trace.get(), Trace::Track::kCollectives, "the gradient's \"norm\"");
  }
  const std::string text = ContentsOf(path);
  EXPECT_EQ(text.front(), '[');
  EXPECT_EQ(text.substr(text.size() - 3), "}]\n");
  EXPECT_THAT(text, HasSubstr(R"("name":"forward layer 0","ph":"X","pid":3,"tid":0,"ts":)"));
  EXPECT_THAT(text, HasSubstr(R"("name":"the gradient's \"norm\"","ph":"X","pid":3,"tid":1)"));
  EXPECT_THAT(text, HasSubstr("rank 3"));
}

// Another thread writes the file.
std::string WhenItHas(size_t bytes, const std::string& path) {
  for (int tries = 0; tries < 3000 && ContentsOf(path).size() <= bytes; ++tries)
    absl::SleepFor(absl::Milliseconds(10));
  return ContentsOf(path);
}

// A pipe that nobody reads stands for a disk that hangs. No step waits for it.
TEST(TraceTest, ADiskThatHangsHoldsUpNobody) {
  const std::string path = testing::TempDir() + "/trace_pipe";
  (void)remove(path.c_str());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  {
    const auto trace = Trace::Create(path, 0).value();
    for (int i = 0; i < Trace::kEventsMax; ++i)
      const Trace::Span span(trace.get(), Trace::Track::kCompute, "forward layer 0");
  }
  close(reader);
}

// As a process leaves it that is killed. Readers accept that the closing bracket is missing, but no
// half event.
TEST(TraceTest, AFileThatNobodyEndedEndsBehindAnEvent) {
  const std::string path = testing::TempDir() + "/trace_killed.json";
  const auto trace = Trace::Create(path, 0).value();
  EXPECT_EQ(WhenItHas(2, path).substr(0, 2), "[{");
  EXPECT_EQ(ContentsOf(path).back(), '}');
  for (int i = 0; i < 5000; ++i)
    const Trace::Span span(trace.get(), Trace::Track::kCompute, "forward layer 0");
  const std::string text = WhenItHas(200 << 10, path);
  EXPECT_GT(text.size(), 200u << 10);
  EXPECT_EQ(text.back(), '}');
}

TEST(TraceTest, NoTraceNoSpans) {
  const Trace::Span span(nullptr, Trace::Track::kCompute, "nothing");
}

TEST(TraceTest, SaysWhatCannotBeWritten) {
  const absl::Status status = Trace::Create("/nowhere/trace.json", 0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere/trace.json"));
}

TEST(TraceTest, KeepsTheFirstEvents) {
  const std::string path = testing::TempDir() + "/trace_full.json";
  {
    const auto trace = Trace::Create(path, 0).value();
    for (int i = 0; i < Trace::kEventsMax + 10; ++i)
      const Trace::Span span(trace.get(), Trace::Track::kCompute, "x");
  }
  const std::string text = ContentsOf(path);
  EXPECT_LT(text.size(), 100u << 20);
  EXPECT_EQ(text.substr(text.size() - 3), "}]\n");
}

}  // namespace
}  // namespace longhaul
