#include "common/base/read_ahead.h"

#include <map>

#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(ReadAheadTest, AsksForEachLineOnceBeforeItsSpanIsReached) {
  constexpr int64_t kSpan = 4096, kSpans = 20;
  // By line: where the pass was when it was requested.
  std::map<int64_t, int64_t> asked;
  for (int64_t number = 0; number < kSpans * kSpan / kReadAheadBytes; ++number) {
    const int64_t at = number * kReadAheadBytes;
    for (int64_t k = 0; k < kReadAheadSpans; ++k) {
      const int64_t line = at + ReadAheadLine(number, k);
      EXPECT_TRUE(asked.emplace(line, at).second) << line << " is asked for twice";
    }
  }
  // The first spans are reached before they could be requested.
  for (int64_t line = kReadAheadSpans * kSpan; line < kSpans * kSpan; line += 64) {
    const auto found = asked.find(line);
    ASSERT_NE(found, asked.end()) << line;
    EXPECT_LT(found->second, line / kSpan * kSpan) << line;
  }
}

}  // namespace
}  // namespace longhaul
