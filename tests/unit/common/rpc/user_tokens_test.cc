#include "common/rpc/user_tokens.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/rpc/status_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The digest of "0123456789abcdef".
constexpr char kDigest[] =
    "sha256:9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f";
constexpr char kOther[] = "sha256:0000000000000000000000000000000000000000000000000000000000000001";
constexpr char kToken[] = "0123456789abcdef";

TEST(ParseTokensTest, ReadsUsers) {
  const auto tokens = ParseTokens(std::string("# who\n\nann viewer ") + kDigest +
                                  " # until May\r\n\tbob  admin\t" + kOther + "\n");
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  ASSERT_EQ(tokens->size(), 2u);
  EXPECT_EQ((*tokens)[0].user, (User{"ann", Role::kViewer}));
  EXPECT_EQ((*tokens)[1].user, (User{"bob", Role::kAdmin}));
  EXPECT_EQ((*tokens)[0].digest[0], 0x9f);
}

TEST(ParseTokensTest, ATextWithoutUsersIsAListOfNone) {
  for (const char* text : {"", "\n", "# none\n"}) {
    const auto tokens = ParseTokens(text);
    ASSERT_TRUE(tokens.ok()) << tokens.status();
    EXPECT_TRUE(tokens->empty());
  }
}

TEST(ParseTokensTest, NamesTheLineAndNeverRepeatsASecret) {
  const std::string good = std::string("ann viewer ") + kDigest + "\n";
  for (const auto& [text, words] : {std::pair{"ann viewer\n", "line 2: expected NAME ROLE"},
                                    {"Ann! viewer sha256:00\n", "line 2: the name"},
                                    {"ann root sha256:00\n", "line 2: the role"},
                                    {"ann viewer sha256:00\n", "line 2: the third word"},
                                    {"ann viewer 0123456789abcdef\n", "line 2: the third word"}}) {
    const absl::Status status = ParseTokens(good + text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr(kToken)));
  }
}

TEST(ParseTokensTest, RefusesOneTokenForTwo) {
  // One user may have two tokens, while one replaces the other.
  EXPECT_TRUE(ParseTokens(absl::StrCat("ann viewer ", kDigest, "\nann viewer ", kOther)).ok());
  const absl::Status status =
      ParseTokens(absl::StrCat("ann viewer ", kDigest, "\n\nbob admin ", kDigest)).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("line 3: bob has the token of line 1 (ann): give each user a token"));
}

TEST(BearerTokenTest, TheBearerTokenFollowsTheScheme) {
  EXPECT_EQ(BearerToken("Bearer abc"), "abc");
  EXPECT_EQ(BearerToken("bearer  abc "), "abc");
  for (const char* other : {"", "Bearer", "Bearer ", "Basic abc", "abc"})
    EXPECT_EQ(BearerToken(other), "") << other;
  EXPECT_EQ(BearerToken("Bearer " + std::string(100'000, 'a')), "");
}

TEST(TokensTest, FindsUsersAndRefusesAFileThatOthersMayRead) {
  const TempDir folder;
  const std::string path = folder.Join("tokens");
  std::ofstream(path) << "ann viewer " << kDigest << "\n";
  const auto set_mode = [&](int mode) {
    std::filesystem::permissions(path, std::filesystem::perms(mode));
  };
  set_mode(0600);
  const auto tokens = Tokens::Open("--tokens", path, Logger({}));
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_EQ((*tokens)->Find(kToken), (User{"ann", Role::kViewer}));
  EXPECT_EQ((*tokens)->Find("0123456789abcdeF"), std::nullopt);
  EXPECT_EQ((*tokens)->Find(""), std::nullopt);
  EXPECT_TRUE((*tokens)->Authenticate("Bearer 0123456789abcdef").ok());
  for (const auto& [header, reason] : {std::pair("", "TOKEN_NEEDED"),
                                       {"Basic YTpi", "TOKEN_MALFORMED"},
                                       {"Bearer 0123456789abcdeF", "TOKEN_UNKNOWN"}}) {
    const absl::Status refused = (*tokens)->Authenticate(header).status();
    EXPECT_TRUE(absl::IsUnauthenticated(refused)) << refused;
    EXPECT_EQ(ErrorInfoOf(refused)->reason, reason);
    EXPECT_FALSE(ErrorInfoOf(refused)->metadata.at("hint").empty());
  }
  for (const int mode : {0604, 0640, 0602, 0660}) {
    set_mode(mode);
    const absl::Status status = Tokens::Open("--tokens", path, Logger({})).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << mode << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("chmod 600 " + path));
  }
  EXPECT_TRUE(absl::IsNotFound(Tokens::Open("--tokens", path + "x", Logger({})).status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(Tokens::Open("--tokens", folder.path(), Logger({})).status()));
}

// A file of tokens that a test changes.
class TokensFile {
 public:
  TokensFile() { Write(absl::StrCat("ann viewer ", kDigest, "\n")); }
  void Write(const std::string& text) {
    std::ofstream(path_) << text;
    std::filesystem::permissions(path_, std::filesystem::perms(0600));
  }
  const std::string& path() const { return path_; }

 private:
  const TempDir folder_;
  const std::string path_ = folder_.Join("tokens");
};

// Whether something becomes true, since the file is looked at once a second.
bool Becomes(const std::function<bool()>& condition) {
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (!condition() && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(50));
  return condition();
}

TEST(TokensTest, WhoIsNotInTheFileAnyMoreIsOutAlsoWhenNobodyIsLeft) {
  TokensFile file;
  const auto tokens = *Tokens::Open("--tokens", file.path(), Logger({}));
  ASSERT_TRUE(tokens->Find(kToken).has_value());
  file.Write("# nobody\n");
  EXPECT_TRUE(Becomes([&] { return !tokens->Find(kToken).has_value(); }));
  EXPECT_FALSE(tokens->refused());
  EXPECT_EQ(ErrorInfoOf(tokens->Authenticate("Bearer 0123456789abcdef").status())->reason,
            "TOKEN_UNKNOWN");
  // A program that starts with such a file lets nobody in, either.
  const auto again = Tokens::Open("--tokens", file.path(), Logger({}));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_FALSE((*again)->Find(kToken).has_value());
}

TEST(TokensTest, UsersOfAFileThatCannotBeUsedStayForAWhile) {
  TokensFile file;
  const auto kept = *Tokens::Open("--tokens", file.path(), Logger({}), absl::Hours(1));
  const auto expired = *Tokens::Open("--tokens", file.path(), Logger({}), absl::ZeroDuration());
  EXPECT_FALSE(kept->refused());
  file.Write("ann viewer nonsense\n");
  EXPECT_TRUE(Becomes([&] { return kept->refused(); }));
  EXPECT_TRUE(kept->Find(kToken).has_value());
  EXPECT_TRUE(Becomes([&] { return expired->refused(); }));
  EXPECT_FALSE(expired->Find(kToken).has_value());
  EXPECT_EQ(ErrorInfoOf(expired->Authenticate("Bearer 0123456789abcdef").status())->reason,
            "TOKENS_UNREADABLE");
  file.Write(absl::StrCat("ann viewer ", kDigest, "\n"));
  EXPECT_TRUE(Becomes([&] { return expired->Find(kToken).has_value(); }));
  EXPECT_FALSE(expired->refused());
  std::filesystem::remove(file.path());
  EXPECT_TRUE(Becomes([&] { return !expired->Find(kToken).has_value(); }));
}

}  // namespace
}  // namespace longhaul
