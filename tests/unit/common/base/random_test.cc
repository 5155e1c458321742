#include "common/base/random.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

using testing::ElementsAre;

// The known answers of the authors' library, Random123 (kat_vectors, philox4x32 10).
TEST(PhiloxTest, GivesTheKnownAnswers) {
  EXPECT_THAT(Philox(0, 0, 0), ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(Philox(~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(Philox(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(RandomTest, IsTheSequenceOfItsKeyAndStream) {
  Random random(7, 3);
  for (uint64_t counter = 0; counter < 5; ++counter) {
    const auto words = Philox(7, 3, counter);
    EXPECT_EQ(random.Next(), uint64_t{words[1]} << 32 | words[0]);
  }
}

TEST(RandomTest, StaysInItsRange) {
  Random random(1);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_LT(random.Below(3), 3);
    const double uniform = random.Uniform();
    EXPECT_TRUE(uniform >= 0 && uniform < 1) << uniform;
  }
}

}  // namespace
}  // namespace longhaul
