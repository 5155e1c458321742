#include "common/io/sha256.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

// FIPS 180-4, examples of SHA-256.
constexpr char kOfNothing[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr char kOfAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(Sha256Test, IsThatOfTheStandard) {
  EXPECT_EQ(Sha256Hex(""), kOfNothing);
  EXPECT_EQ(Sha256Hex("abc"), kOfAbc);
}

TEST(Sha256Test, TakesBytesInPiecesAndGoesOn) {
  Sha256 sha;
  EXPECT_EQ(sha.Hex(), kOfNothing);
  sha.Update("a");
  EXPECT_NE(sha.Hex(), kOfAbc);
  sha.Update("bc");
  EXPECT_EQ(sha.Hex(), kOfAbc);
  Sha256 moved = std::move(sha);
  moved.Update("d");
  EXPECT_EQ(moved.Hex(), Sha256Hex("abcd"));
}

TEST(Sha256Test, KnowsItsForm) {
  EXPECT_TRUE(IsSha256Hex(kOfAbc));
  EXPECT_FALSE(IsSha256Hex(""));
  EXPECT_FALSE(IsSha256Hex(std::string(kOfAbc) + "0"));
  EXPECT_FALSE(IsSha256Hex("B" + std::string(kOfAbc + 1)));
  EXPECT_FALSE(IsSha256Hex("../" + std::string(kOfAbc + 3)));
}

}  // namespace
}  // namespace longhaul
