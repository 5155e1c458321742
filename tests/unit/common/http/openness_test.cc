#include "common/http/openness.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

HttpOpenness At(const std::string& listen) { return {.listen = listen, .what = "metrics"}; }

TEST(OpennessTest, ThisMachineMayReadEverythingWithoutAToken) {
  for (const char* listen : {"", "127.0.0.1:7072", "localhost:0", "[::1]:7072"})
    EXPECT_EQ(*CheckHttpOpenness(At(listen)), "") << listen;
}

TEST(OpennessTest, OtherMachinesNeedATokenOrTheInsecureFlag) {
  HttpOpenness http = At("0.0.0.0:7072");
  const absl::Status refused = CheckHttpOpenness(http).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  for (const char* word :
       {"--http-listen 0.0.0.0:7072", "may read metrics", "--tokens", "--insecure"})
    EXPECT_THAT(std::string(refused.message()), HasSubstr(word));
  http.insecure = true;
  EXPECT_THAT(*CheckHttpOpenness(http), StartsWith("INSECURE: "));
  // TLS alone keeps nobody out.
  http.tls = true;
  EXPECT_THAT(*CheckHttpOpenness(http), StartsWith("INSECURE: "));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckHttpOpenness(At("nonsense")).status()));
}

TEST(OpennessTest, TokensDoNotTravelInPlaintextUnlessTheInsecureFlagSaysSo) {
  HttpOpenness http = At("0.0.0.0:7072");
  http.tokens = true;
  const absl::Status refused = CheckHttpOpenness(http).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  for (const char* word : {"tokens can be read on the network", "--http-tls", "--insecure"})
    EXPECT_THAT(std::string(refused.message()), HasSubstr(word));
  http.insecure = true;
  EXPECT_THAT(*CheckHttpOpenness(http), StartsWith("INSECURE: "));
  http.insecure = false;
  http.tls = true;
  EXPECT_EQ(*CheckHttpOpenness(http), "");
}

}  // namespace
}  // namespace longhaul
