#include "tests/conformance/filesystem_suite.h"

namespace longhaul {
namespace {

TEST_P(FileSystemSuite, ReadsWhatWasWrittenAtAnyOffset) {
  auto file = Create("a");
  ASSERT_TRUE(file->WriteAt(3, "def").ok());
  ASSERT_TRUE(file->WriteAt(0, "ab").ok());
  EXPECT_EQ(Content("a"), std::string("ab\0def", 6));
  std::string out(10, '?');
  EXPECT_EQ(*file->ReadAt(4, absl::MakeSpan(out)), 2);
  EXPECT_EQ(out.substr(0, 3), "ef?");
  EXPECT_EQ(*file->ReadAt(100, absl::MakeSpan(out)), 0);
}

TEST_P(FileSystemSuite, AppendsAtTheEnd) {
  auto file = Create("a");
  ASSERT_TRUE(file->Append("one").ok());
  ASSERT_TRUE(file->Append("two").ok());
  EXPECT_EQ(Content("a"), "onetwo");
}

TEST_P(FileSystemSuite, ReadExactlyRefusesAShortFile) {
  auto file = Create("a");
  ASSERT_TRUE(file->WriteAt(0, "abc").ok());
  std::string out(4, '?');
  EXPECT_TRUE(absl::IsDataLoss(file->ReadExactly(0, absl::MakeSpan(out))));
  EXPECT_TRUE(file->ReadExactly(0, absl::MakeSpan(out).first(3)).ok());
}

TEST_P(FileSystemSuite, PreallocatesZerosAndNeverShrinks) {
  auto file = Create("a");
  ASSERT_TRUE(file->WriteAt(0, "x").ok());
  ASSERT_TRUE(file->Preallocate(5000).ok());
  EXPECT_EQ(*file->Size(), 5000);
  EXPECT_EQ(Content("a"), "x" + std::string(4999, '\0'));
  ASSERT_TRUE(file->Preallocate(10).ok());
  EXPECT_EQ(*file->Size(), 5000);
}

TEST_P(FileSystemSuite, WritingBehindChangesNothing) {
  auto file = Create("a");
  ASSERT_TRUE(file->WriteAt(0, "abcdef").ok());
  file->WriteBehind(0, 4);
  // Beyond the end: a hint cannot fail.
  file->WriteBehind(1000, 4);
  EXPECT_EQ(Content("a"), "abcdef");
  EXPECT_TRUE(file->SyncData().ok());
}

TEST_P(FileSystemSuite, TruncatesBothWays) {
  auto file = Create("a");
  ASSERT_TRUE(file->WriteAt(0, "abcdef").ok());
  ASSERT_TRUE(file->Truncate(2).ok());
  ASSERT_TRUE(file->Truncate(4).ok());
  EXPECT_EQ(Content("a"), std::string("ab\0\0", 4));
}

TEST_P(FileSystemSuite, CreateEmptiesAnExistingFile) {
  ASSERT_TRUE(Create("a")->WriteAt(0, "old").ok());
  EXPECT_EQ(*Create("a")->Size(), 0);
}

TEST_P(FileSystemSuite, SaysNotFound) {
  EXPECT_TRUE(absl::IsNotFound(fs_.Open(Path("none")).status()));
  EXPECT_TRUE(absl::IsNotFound(fs_.Create(Path("none/a")).status()));
  EXPECT_TRUE(absl::IsNotFound(fs_.Remove(Path("none"))));
  EXPECT_TRUE(absl::IsNotFound(fs_.Rename(Path("none"), Path("a"))));
  EXPECT_TRUE(absl::IsNotFound(fs_.List(Path("none")).status()));
  EXPECT_THAT(*ListIfThere(fs_, Path("none")), testing::IsEmpty());
}

TEST_P(FileSystemSuite, KnowsItsFreeSpace) {
  const absl::StatusOr<int64_t> free = fs_.FreeBytes(under_test_.root);
  ASSERT_TRUE(free.ok()) << free.status();
  EXPECT_GT(*free, 0);
  EXPECT_TRUE(absl::IsNotFound(fs_.FreeBytes(Path("none")).status()));
}

TEST_P(FileSystemSuite, MakesAFolderOnceAndRefusesAFileOfTheName) {
  EXPECT_TRUE(fs_.CreateDir(Path("d")).ok());
  EXPECT_TRUE(fs_.CreateDir(Path("d")).ok());
  Create("f");
  EXPECT_TRUE(absl::IsAlreadyExists(fs_.CreateDir(Path("f"))));
}

TEST_P(FileSystemSuite, RenamesOverAFileAndMovesFolders) {
  ASSERT_TRUE(Create("a")->WriteAt(0, "new").ok());
  ASSERT_TRUE(Create("b")->WriteAt(0, "old").ok());
  ASSERT_TRUE(fs_.Rename(Path("a"), Path("b")).ok());
  EXPECT_EQ(Content("b"), "new");
  ASSERT_TRUE(fs_.CreateDir(Path("d")).ok());
  Create("d/x");
  ASSERT_TRUE(fs_.Rename(Path("d"), Path("e")).ok());
  EXPECT_THAT(*fs_.List(Path("e")), testing::ElementsAre("x"));
  EXPECT_THAT(*ListIfThere(fs_, Path("e")), testing::ElementsAre("x"));
  EXPECT_THAT(*fs_.List(Path("")), testing::ElementsAre("b", "e"));
}

TEST_P(FileSystemSuite, RefusesToRemoveAFolderThatIsNotEmpty) {
  ASSERT_TRUE(fs_.CreateDir(Path("d")).ok());
  Create("d/x");
  EXPECT_FALSE(fs_.Remove(Path("d")).ok());
  ASSERT_TRUE(fs_.Remove(Path("d/x")).ok());
  EXPECT_TRUE(fs_.Remove(Path("d")).ok());
}

TEST_P(FileSystemSuite, AnOpenFileOutlivesItsName) {
  auto file = Create("a");
  ASSERT_TRUE(file->WriteAt(0, "abc").ok());
  ASSERT_TRUE(fs_.Remove(Path("a")).ok());
  std::string out(3, '?');
  EXPECT_TRUE(file->ReadExactly(0, absl::MakeSpan(out)).ok());
  EXPECT_EQ(out, "abc");
}

TEST_P(FileSystemSuite, SyncsFilesAndFolders) {
  auto file = Create("a");
  ASSERT_TRUE(file->WriteAt(0, "abc").ok());
  EXPECT_TRUE(file->SyncData().ok());
  EXPECT_TRUE(fs_.SyncDir(under_test_.root).ok());
  file->DropCache();
  EXPECT_EQ(Content("a"), "abc");
}

TEST_P(FileSystemSuite, UtilitiesReplaceAndRemoveWhole) {
  ASSERT_TRUE(CreateDirs(fs_, Path("x/y/z")).ok());
  ASSERT_TRUE(WriteFileAtomically(fs_, Path("x/y/z/f"), "one").ok());
  ASSERT_TRUE(WriteFileAtomically(fs_, Path("x/y/z/f"), "two").ok());
  EXPECT_EQ(Content("x/y/z/f"), "two");
  EXPECT_THAT(*fs_.List(Path("x/y/z")), testing::ElementsAre("f"));
  EXPECT_TRUE(absl::IsDataLoss(ReadFile(fs_, Path("x/y/z/f"), 2).status()));
  EXPECT_TRUE(RemoveFolder(fs_, Path("x/y/z")).ok());
  EXPECT_TRUE(RemoveFolder(fs_, Path("x/y/z")).ok());
  EXPECT_THAT(*fs_.List(Path("x/y")), testing::IsEmpty());
}

}  // namespace
}  // namespace longhaul
