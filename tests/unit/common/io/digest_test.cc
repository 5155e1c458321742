#include "common/io/digest.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "xxhash.h"

namespace longhaul {
namespace {

// Values of the reference implementation (xxhash 0.8).
TEST(DigestTest, EqualsTheReference) {
  EXPECT_EQ(DigestOf("").Hex(), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(Hash64({}), 0x2d06800538d394c2u);
}

// Long inputs are hashed in parts.
TEST(DigestTest, LongInputsEqualTheReferenceToo) {
  std::string bytes(100'000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 131 + i / 256);
  for (const size_t size : {16'383, 16'384, 16'385, 20'480, 65'536, 99'999}) {
    const absl::string_view part = absl::string_view(bytes).substr(0, size);
    const absl::Span<const uint8_t> piece(reinterpret_cast<const uint8_t*>(part.data()), size);
    EXPECT_EQ(Hash64({piece}), XXH3_64bits(part.data(), size)) << size;
    const XXH128_hash_t expected = XXH3_128bits_withSeed(part.data(), size, 7);
    EXPECT_EQ(DigestOf(part, 7), (Digest128{expected.high64, expected.low64})) << size;
    Digester digester;
    digester.Update(part);
    EXPECT_EQ(digester.Value(), DigestOf(part)) << size;
  }
}

TEST(DigestTest, TheHashDoesNotDependOnPieces) {
  std::vector<uint8_t> bytes(5000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 131);
  const absl::Span<const uint8_t> all = bytes;
  const uint64_t whole = Hash64({all});
  for (const size_t cut : {size_t{0}, size_t{1}, size_t{240}, size_t{4999}, all.size()}) {
    EXPECT_EQ(Hash64({all.first(cut), all.subspan(cut)}), whole) << cut;
  }
}

TEST(DigestTest, StreamingEqualsOneShot) {
  std::string bytes;
  for (int i = 0; i < 5000; ++i) bytes.push_back(static_cast<char>(i * 131));
  for (const size_t cut : {size_t{0}, size_t{1}, size_t{240}, size_t{1024}, bytes.size()}) {
    Digester digester;
    digester.Update(absl::string_view(bytes).substr(0, cut));
    digester.Update(absl::string_view(bytes).substr(cut));
    EXPECT_EQ(digester.Value(), DigestOf(bytes)) << cut;
  }
}

TEST(DigestTest, ValueDoesNotEndTheStream) {
  Digester digester;
  digester.Update("ab");
  EXPECT_EQ(digester.Value(), DigestOf("ab"));
  digester.Update("c");
  EXPECT_EQ(digester.Value(), DigestOf("abc"));
}

TEST(DigestTest, FloatsAreTheirLittleEndianBytes) {
  const std::vector<float> values = {1.0f, -2.0f};
  Digester digester;
  digester.Update(absl::MakeConstSpan(values));
  EXPECT_EQ(digester.Value(), DigestOf(absl::string_view("\0\0\x80\x3f\0\0\0\xc0", 8)));
}

TEST(DigestTest, TheSeedMatters) { EXPECT_NE(DigestOf("abc", 1), DigestOf("abc", 2)); }

}  // namespace
}  // namespace longhaul
