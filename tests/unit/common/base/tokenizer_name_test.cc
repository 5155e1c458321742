#include "common/base/tokenizer_name.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

TEST(TokenizerNameTest, AFileIsWhatItsNameEndsWith) {
  EXPECT_TRUE(IsHfTokenizer("/m/tokenizer.json"));
  EXPECT_TRUE(IsHfTokenizer(kHfTokenizerFile));
  EXPECT_FALSE(IsHfTokenizer(kPieceTokenizerFile));
  EXPECT_FALSE(IsHfTokenizer("/m.json/pieces"));
}

TEST(TokenizerNameTest, APathThatMayBeAFolderMayHoldEither) {
  for (const char* path : {"/m/tokenizer.json", "/models/Llama-3.1-8B", "base/", "/m.model/x"})
    EXPECT_TRUE(MayBeHfTokenizer(path)) << path;
  EXPECT_FALSE(MayBeHfTokenizer("/m/tokenizer.model"));
}

}  // namespace
}  // namespace longhaul
