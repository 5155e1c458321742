#include "common/io/file_pieces.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/testing/memory_filesystem.h"

namespace longhaul {
namespace {

std::string Pattern(int64_t bytes) {
  std::string text(bytes, '\0');
  for (int64_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 2654435761u >> 13);
  return text;
}

class FilePiecesTest : public ::testing::Test {
 protected:
  std::unique_ptr<File> FileOf(const std::string& bytes) {
    auto file = fs_.Create("x");
    EXPECT_TRUE(file.ok() && (*file)->WriteAt(0, bytes).ok());
    return *std::move(file);
  }
  // What comes until the end or an error.
  static absl::StatusOr<std::string> All(FilePieces& pieces) {
    std::string all;
    while (true) {
      const absl::StatusOr<FilePiece> piece = pieces.Next();
      if (!piece.ok()) return piece.status();
      if (piece->size == 0) return all;
      EXPECT_LE(piece->size, size_t{FilePieces::kPieceBytes});
      all.append(piece->bytes.get(), piece->size);
    }
  }

  MemoryFileSystem fs_;
};

TEST_F(FilePiecesTest, GivesTheBytesInOrder) {
  constexpr int64_t kPiece = FilePieces::kPieceBytes;
  const std::string bytes = Pattern(5 * kPiece + 7);
  const auto file = FileOf(bytes);
  const int64_t size = static_cast<int64_t>(bytes.size());
  const struct {
    int64_t from, to;
  } ranges[] = {{0, size}, {3, 4}, {kPiece, 2 * kPiece}, {7, size - 1}, {size, size}, {0, 0}};
  for (const auto& [from, to] : ranges) {
    FilePieces pieces(file.get(), from, to);
    const auto all = All(pieces);
    ASSERT_TRUE(all.ok()) << all.status();
    EXPECT_TRUE(*all == bytes.substr(from, to - from)) << from << " to " << to;
    EXPECT_EQ(pieces.Next()->size, 0u);
  }
}

TEST_F(FilePiecesTest, AnErrorComesBehindThePiecesBeforeIt) {
  const auto file = FileOf(Pattern(FilePieces::kPieceBytes + 1));
  FilePieces pieces(file.get(), 0, 3 * FilePieces::kPieceBytes);
  EXPECT_EQ(pieces.Next()->size, size_t{FilePieces::kPieceBytes});
  EXPECT_TRUE(absl::IsDataLoss(pieces.Next().status()));
  EXPECT_TRUE(absl::IsDataLoss(pieces.Next().status()));
}

TEST_F(FilePiecesTest, EndsWithoutACallerForAllPieces) {
  const auto file = FileOf(Pattern(20 * FilePieces::kPieceBytes));
  for (int taken = 0; taken < 3; ++taken) {
    FilePieces pieces(file.get(), 0, 20 * FilePieces::kPieceBytes);
    for (int i = 0; i < taken; ++i) ASSERT_TRUE(pieces.Next().ok());
  }
}

}  // namespace
}  // namespace longhaul
