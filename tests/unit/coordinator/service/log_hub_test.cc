#include "coordinator/service/log_hub.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace longhaul::coordinator {
namespace {

class Source final : public LogSource {
 public:
  void Send(const v1::ServeLogsResponse&) override {}
  void End(const absl::Status& status) override { ended = status; }
  absl::Status ended;
};

// Each costs memory, and every reader is told of each.
TEST(LogHubTest, APoolHasALimitedNumberOfSources) {
  LogHub hub;
  std::vector<std::shared_ptr<Source>> sources;
  std::vector<int64_t> ids;
  const auto add = [&](const char* pool) {
    sources.push_back(std::make_shared<Source>());
    ids.push_back(hub.Add(sources.back(), pool, 0));
    return sources.back()->ended;
  };
  for (int i = 0; i < LogHub::kSourcesOfPoolMax; ++i) ASSERT_TRUE(add("site-a").ok());
  EXPECT_TRUE(absl::IsResourceExhausted(add("site-a")));
  EXPECT_TRUE(add("site-b").ok());
  hub.Remove(ids[0]);
  EXPECT_TRUE(add("site-a").ok());
  EXPECT_TRUE(absl::IsResourceExhausted(add("site-a")));
}

}  // namespace
}  // namespace longhaul::coordinator
