#include "common/checkpoint/folder_files.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "common/io/sha256.h"
#include "tests/testing/memory_filesystem.h"

namespace longhaul {
namespace {

FolderFile FileOf(const std::string& name, const std::string& bytes = "x") {
  return {name, static_cast<int64_t>(bytes.size()), Sha256Hex(bytes)};
}

std::string FaultOf(const std::vector<FolderFile>& files) {
  return std::string(CheckFolderFiles(files).message());
}

TEST(FolderFilesTest, TheDigestIsOfTheListByName) {
  const std::vector<FolderFile> files = {FileOf("manifest.json", "{}"), FileOf("a.f32", "abc")};
  const std::string list =
      absl::StrCat("a.f32\t3\t", Sha256Hex("abc"), "\nmanifest.json\t2\t", Sha256Hex("{}"), "\n");
  EXPECT_EQ(ListOfFiles(files), list);
  EXPECT_EQ(DigestOfFiles(files), Sha256Hex(list));
  EXPECT_EQ(DigestOfFiles({files[1], files[0]}), Sha256Hex(list));
  EXPECT_NE(DigestOfFiles({files[0], FileOf("a.f32", "abd")}), Sha256Hex(list));
  const auto parsed = ParseListOfFiles(list);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, (std::vector<FolderFile>{files[1], files[0]}));
}

TEST(FolderFilesTest, RefusesWhatIsNoFolder) {
  const FolderFile config = FileOf("config.json");
  EXPECT_EQ(FaultOf({config}), "");
  EXPECT_EQ(FaultOf({FileOf("manifest.json"), FileOf("x")}), "");
  EXPECT_EQ(FaultOf({}), "names no files");
  EXPECT_NE(FaultOf({FileOf("model.safetensors")}), "");
  EXPECT_EQ(FaultOf({config, config}), "'config.json' is listed twice");
  for (const char* name :
       {"", ".", "..", "../x", "/etc/passwd", "a/b", "a\\b", ".files", "a\nb", "a\tb", "a\x7f"})
    EXPECT_NE(FaultOf({config, FileOf(name)}), "") << name;
  EXPECT_NE(FaultOf({config, FileOf(std::string(256, 'a'))}), "");
  // A name is shown clipped, and never within a character: protobuf takes no half ones.
  const std::string clipped = FaultOf({config, FileOf(std::string(254, 'a') + "\u00e9")});
  EXPECT_EQ(clipped.substr(0, 256), "'" + std::string(254, 'a') + "'");
  FolderFile file = FileOf("x");
  file.bytes = -1;
  EXPECT_EQ(FaultOf({config, file}), "'x' has an impossible size");
  file.bytes = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(FaultOf({config, file}), "'x' has an impossible size");
  file = FileOf("x");
  file.sha256[0] = 'X';
  EXPECT_NE(FaultOf({config, file}), "");
  std::vector<FolderFile> many = {config};
  for (size_t i = 0; i < kFolderFilesMax; ++i) many.push_back(FileOf(absl::StrCat("f", i)));
  EXPECT_NE(FaultOf(many), "");
  many.pop_back();
  EXPECT_EQ(FaultOf(many), "");
  for (const std::string list : {"", "config.json", "config.json\t1", "config.json\tx\ty\n"})
    EXPECT_TRUE(absl::IsInvalidArgument(ParseListOfFiles(list).status())) << list;
}

TEST(FolderFilesTest, NeedsAManifestOrAModel) {
  MemoryFileSystem fs;
  ASSERT_TRUE(fs.CreateDir("empty").ok());
  EXPECT_TRUE(absl::IsNotFound(FilesNeededOf(fs, "empty").status()));
}

}  // namespace
}  // namespace longhaul
