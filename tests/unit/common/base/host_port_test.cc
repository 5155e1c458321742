#include "common/base/host_port.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;

TEST(HostPortTest, ReadsNamesAndAddresses) {
  EXPECT_EQ(ParseHostPort("coordinator.example.org:7070")->host, "coordinator.example.org");
  EXPECT_EQ(ParseHostPort("coordinator.example.org:7070")->port, 7070);
  EXPECT_EQ(ParseHostPort("127.0.0.1:0")->port, 0);
  EXPECT_EQ(ParseHostPort("a:65535")->port, 65535);
  EXPECT_EQ(ParseHostPort("[::1]:80")->host, "::1");
  EXPECT_EQ(ParseHostPort("[fe80::1%eth0]:80")->host, "fe80::1%eth0");
}

TEST(HostPortTest, SaysWhatIsWrong) {
  const struct {
    const char *text, *why;
  } cases[] = {{"", "expected host:port"},
               {"localhost", "expected host:port"},
               {"localhost:", "0 to 65535"},
               {"localhost:99999", "0 to 65535"},
               {"localhost:65536", "0 to 65535"},
               {"localhost:4294967376", "0 to 65535"},
               {"localhost:-1", "0 to 65535"},
               {"localhost:+1", "0 to 65535"},
               {"localhost: 1", "0 to 65535"},
               {"localhost:http", "0 to 65535"},
               {":7070", "the host is missing"},
               {"[]:7070", "the host is missing"},
               {"::1:7070", "[address]:port"},
               {"http://localhost:7070", "without http://"},
               {"local host:7070", "the host name is invalid"},
               {"a/b:7070", "the host name is invalid"}};
  for (const auto& test : cases) {
    const auto parsed = ParseHostPort(test.text);
    ASSERT_TRUE(absl::IsInvalidArgument(parsed.status())) << test.text;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(test.why)) << test.text;
  }
}

TEST(HostPortTest, RecognisesLoopbackHosts) {
  for (const char* host : {"localhost", "127.0.0.1", "127.8.9.10", "::1"})
    EXPECT_TRUE(IsLoopback(host)) << host;
  for (const char* host :
       {"", "0.0.0.0", "::", "10.0.0.127", "127.example.org", "localhost.example.org"})
    EXPECT_FALSE(IsLoopback(host)) << host;
}

}  // namespace
}  // namespace longhaul
