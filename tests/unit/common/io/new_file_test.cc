#include "common/io/new_file.h"

#include <string>
#include <utility>
#include <vector>

#include "common/io/file_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/memory_filesystem.h"

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class NewFileTest : public testing::Test {
 protected:
  NewFileTest() {
    EXPECT_TRUE(fs_.CreateDir("folder").ok());
    EXPECT_TRUE(fs_.SyncDir("").ok());
  }
  static std::string Content(FileSystem& fs) {
    return ReadFile(fs, "folder/a", 1 << 20).value_or("(none)");
  }

  MemoryFileSystem fs_;
};

TEST_F(NewFileTest, HasItsNameOnlyWhenItIsPublished) {
  NewFile file = NewFile::Create(&fs_, "folder/a").value();
  ASSERT_TRUE(file.Append("one ").ok());
  ASSERT_TRUE(file.Append("two").ok());
  ASSERT_TRUE(file.Sync().ok());
  EXPECT_EQ(file.bytes(), 7);
  EXPECT_EQ(Content(fs_), "(none)");
  ASSERT_TRUE(file.Publish().ok());
  EXPECT_EQ(Content(fs_), "one two");
  EXPECT_EQ(Content(*fs_.CrashCopy(UnsyncedFate::kDropped)), "one two");
  EXPECT_THAT(*fs_.List("folder"), ElementsAre("a"));
}

TEST_F(NewFileTest, LeavesTheEarlierFileUntilThen) {
  ASSERT_TRUE(WriteFileAtomically(fs_, "folder/a", "old").ok());
  NewFile file = NewFile::Create(&fs_, "folder/a").value();
  ASSERT_TRUE(file.Append("new").ok());
  EXPECT_EQ(Content(fs_), "old");
  ASSERT_TRUE(file.Publish().ok());
  EXPECT_EQ(Content(*fs_.CrashCopy(UnsyncedFate::kDropped)), "new");
}

TEST_F(NewFileTest, LeavesNothingWithoutPublish) {
  {
    NewFile file = NewFile::Create(&fs_, "folder/a").value();
    ASSERT_TRUE(file.Append("half").ok());
    const NewFile moved = std::move(file);
    EXPECT_THAT(*fs_.List("folder"), ElementsAre("a.tmp"));
  }
  EXPECT_THAT(*fs_.List("folder"), IsEmpty());
}

TEST_F(NewFileTest, NeedsItsFolder) {
  EXPECT_TRUE(absl::IsNotFound(NewFile::Create(&fs_, "elsewhere/a").status()));
}

}  // namespace
}  // namespace longhaul
