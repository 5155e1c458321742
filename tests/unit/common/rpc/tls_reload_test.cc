#include "common/rpc/tls_reload.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/certificates.h"
#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;

std::string TlsCopy(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

class TlsReloadTest : public ::testing::Test {
 protected:
  void Start(bool authorities_only = false) {
    auto started = TlsReload::Start({.files = files_,
                                     .authorities_only = authorities_only,
                                     .every = absl::Milliseconds(1),
                                     .log = Logger({.stream = &said_})});
    ASSERT_TRUE(started.ok()) << started.status();
    reload_ = *std::move(started);
  }
  void Await(bool refused) {
    while (reload_->refused() != refused) absl::SleepFor(absl::Milliseconds(1));
  }
  void AwaitIdentity(const Identity& identity) {
    while (!absl::StrContains(TlsCopy(reload_->identity_path()), identity.certificate))
      absl::SleepFor(absl::Milliseconds(1));
  }
  void Write(const Identity& identity) {
    WriteTlsFiles(folder_.path(), authority_.certificate(), identity);
  }
  // Ends the watch, so that nobody writes any more.
  std::string Said() {
    reload_.reset();
    return said_.str();
  }

  const TestAuthority authority_{"an authority"};
  const TempDir folder_;
  const Identity first_ = authority_.Issue("a", "DNS:localhost");
  TlsFiles files_ = WriteTlsFiles(folder_.path(), authority_.certificate(), first_);
  std::ostringstream said_;
  std::unique_ptr<TlsReload> reload_;
};

TEST_F(TlsReloadTest, GivesTheFilesOn) {
  Start();
  EXPECT_EQ(TlsCopy(reload_->ca_path()), authority_.certificate());
  EXPECT_THAT(TlsCopy(reload_->identity_path()), HasSubstr(first_.certificate));
  EXPECT_THAT(TlsCopy(reload_->identity_path()), HasSubstr(first_.key));
  EXPECT_FALSE(reload_->refused());
  EXPECT_GT(*reload_->certificate_until(), absl::Now());
  EXPECT_EQ(Said(), "");
}

TEST_F(TlsReloadTest, GivesTheAuthoritiesAloneOn) {
  files_ = {.ca = files_.ca};
  Start(/*authorities_only=*/true);
  EXPECT_EQ(TlsCopy(reload_->ca_path()), authority_.certificate());
  EXPECT_EQ(reload_->identity_path(), "");
  EXPECT_EQ(reload_->certificate_until(), std::nullopt);
}

TEST_F(TlsReloadTest, RefusesFilesThatCannotBeUsedAtItsStart) {
  std::filesystem::remove(files_.key);
  EXPECT_TRUE(absl::IsNotFound(TlsReload::Start({.files = files_}).status()));
}

TEST_F(TlsReloadTest, TakesFilesThatBelongTogether) {
  Start();
  const Identity second = authority_.Issue("b", "DNS:localhost");
  Write(second);
  AwaitIdentity(second);
  EXPECT_THAT(TlsCopy(reload_->identity_path()), HasSubstr(second.key));
  Await(/*refused=*/false);
  EXPECT_THAT(Said(), HasSubstr("new connections use the new TLS files"));
}

TEST_F(TlsReloadTest, KeepsTheLastGoodFiles) {
  Start();
  const std::string good = TlsCopy(reload_->identity_path());
  const Identity second = authority_.Issue("b", "DNS:localhost");
  const auto half = [](const std::string& text) { return text.substr(0, text.size() / 2); };
  for (const auto& [certificate, key] :
       {std::pair(second.certificate, first_.key), std::pair(half(second.certificate), second.key),
        std::pair(second.certificate, half(second.key)), std::pair(std::string(), std::string())}) {
    Write({certificate, key});
    Await(/*refused=*/true);
    EXPECT_EQ(TlsCopy(reload_->identity_path()), good);
    Write(first_);
    Await(/*refused=*/false);
  }
  std::filesystem::remove(files_.ca);
  Await(/*refused=*/true);
  EXPECT_EQ(TlsCopy(reload_->ca_path()), authority_.certificate());
  Write(second);
  AwaitIdentity(second);
}

TEST_F(TlsReloadTest, SaysOnceWhyItRefusesFiles) {
  Start();
  std::filesystem::remove(files_.certificate);
  Await(/*refused=*/true);
  // Some more looks.
  absl::SleepFor(absl::Milliseconds(20));
  const std::string said = Said();
  const size_t at = said.find("No such file or directory; the TLS files that were read before");
  EXPECT_NE(at, std::string::npos) << said;
  EXPECT_EQ(said.find("No such file", at + 1), std::string::npos) << said;
}

}  // namespace
}  // namespace longhaul
