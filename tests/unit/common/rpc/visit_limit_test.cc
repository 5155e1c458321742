#include "common/rpc/visit_limit.h"

#include <gtest/gtest.h>

#include <string>

namespace longhaul {
namespace {

const absl::Time kFirstVisit = absl::FromUnixSeconds(1700000000);
const std::string kSomebody("\x7f\0\0\1", 4), kAnother("\x0a\0\0\1", 4);

TEST(VisitLimitTest, AnAddressThatComesAndGoesHasToWait) {
  VisitLimit limit;
  for (int i = 0; i < 128; ++i) {
    EXPECT_FALSE(limit.IsExceeded(kSomebody, kFirstVisit)) << i;
    limit.Ended(kSomebody, kFirstVisit, kFirstVisit);
  }
  EXPECT_TRUE(limit.IsExceeded(kSomebody, kFirstVisit));
  EXPECT_FALSE(limit.IsExceeded(kAnother, kFirstVisit));
  const absl::Time later = kFirstVisit + absl::Seconds(1);
  for (int i = 0; i < 25; ++i) {
    EXPECT_FALSE(limit.IsExceeded(kSomebody, later)) << i;
    limit.Ended(kSomebody, later, later);
  }
  EXPECT_TRUE(limit.IsExceeded(kSomebody, later));
}

TEST(VisitLimitTest, ConnectionsThatLastedDoNotCount) {
  VisitLimit limit;
  for (int i = 0; i < 10'000; ++i)
    limit.Ended(kSomebody, kFirstVisit, kFirstVisit + VisitLimit::kShort);
  EXPECT_FALSE(limit.IsExceeded(kSomebody, kFirstVisit + VisitLimit::kShort));
}

TEST(VisitLimitTest, ANetworkOfIpv6IsOneAddress) {
  VisitLimit limit;
  const std::string network = "\x20\x01\x0d\xb8network";
  for (int i = 0; i < 128; ++i)
    limit.Ended(network.substr(0, 8) + std::string(8, static_cast<char>(i)), kFirstVisit,
                kFirstVisit);
  EXPECT_TRUE(limit.IsExceeded(network.substr(0, 8) + std::string(8, 'x'), kFirstVisit));
}

TEST(VisitLimitTest, ItForgetsWhoHasPaused) {
  VisitLimit limit;
  absl::Time now = kFirstVisit;
  for (size_t i = 0; i < 3 * VisitLimit::kAddressesMax; ++i, now += absl::Seconds(1)) {
    const auto byte = [i](int shift) { return static_cast<char>(i >> shift); };
    limit.Ended({byte(24), byte(16), byte(8), byte(0)}, now, now);
  }
  for (int i = 0; i < 128; ++i) limit.Ended(kSomebody, now, now);
  EXPECT_TRUE(limit.IsExceeded(kSomebody, now));
}

}  // namespace
}  // namespace longhaul
