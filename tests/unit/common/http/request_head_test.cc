#include "common/http/request_head.h"

#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(RequestHeadTest, AHeadEndsWithAnEmptyLine) {
  EXPECT_EQ(HeadBytes(""), 0u);
  EXPECT_EQ(HeadBytes("GET / HTTP/1.1\r\nHost: a\r\n"), 0u);
  EXPECT_EQ(HeadBytes("GET / HTTP/1.1\r\n\r\nbody"), 18u);
  EXPECT_EQ(HeadBytes("GET / HTTP/1.1\n\nbody"), 16u);
}

TEST(RequestHeadTest, ItsLinesAreTakenApart) {
  const auto request = ParseRequestHead(
      "GET /job?name=a%20b?c HTTP/1.1\r\nhost:  there:7071 \r\nAUTHORIZATION: Bearer x: y\r\n"
      "Other: z\r\n\r\n");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->method, "GET");
  EXPECT_EQ(request->path, "/job");
  EXPECT_EQ(request->query, "name=a%20b?c");
  EXPECT_EQ(request->host, "there:7071");
  EXPECT_EQ(request->authorization, "Bearer x: y");
  const auto bare = ParseRequestHead("HEAD / HTTP/1.0\n\n");
  ASSERT_TRUE(bare.ok()) << bare.status();
  EXPECT_EQ(bare->host, "");
}

TEST(RequestHeadTest, RefusesWhatIsNoRequest) {
  for (const char* text :
       {"", "\n\n", "GET /\r\n\r\n", "GET / HTTP/2.0\r\n\r\n", " / HTTP/1.1\r\n\r\n",
        "GET / x HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseRequestHead(text).status())) << text;
  }
}

}  // namespace
}  // namespace longhaul
