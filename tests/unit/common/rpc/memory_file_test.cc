#include "common/rpc/memory_file.h"

#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <thread>

#include "gtest/gtest.h"

namespace longhaul {
namespace {

std::string ContentOf(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

struct stat StateOf(const std::string& path) {
  struct stat state = {};
  EXPECT_EQ(stat(path.c_str(), &state), 0);
  return state;
}

TEST(MemoryFileTest, IsReadByItsPath) {
  const auto file = MemoryFile::Create("first").value();
  EXPECT_EQ(ContentOf(file->path()), "first");
  EXPECT_EQ(StateOf(file->path()).st_mode & 0777, 0600u);
  const time_t before = StateOf(file->path()).st_mtime;
  EXPECT_EQ(file->Replace(""), absl::OkStatus());
  EXPECT_EQ(ContentOf(file->path()), "");
  EXPECT_NE(StateOf(file->path()).st_mtime, before);
}

TEST(MemoryFileTest, WhoReadIsNotDisturbed) {
  const auto file = MemoryFile::Create("first").value();
  std::ifstream open(file->path());
  EXPECT_EQ(file->Replace("second"), absl::OkStatus());
  std::string content;
  open >> content;
  EXPECT_EQ(content, "first");
}

TEST(MemoryFileTest, AReaderGetsOneContentWhole) {
  const std::string a(100'000, 'a'), b(70'000, 'b');
  const auto file = MemoryFile::Create(a).value();
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (int i = 0; i < 200; ++i) EXPECT_EQ(file->Replace(i % 2 == 0 ? b : a), absl::OkStatus());
    done = true;
  });
  while (!done) {
    const std::string content = ContentOf(file->path());
    EXPECT_TRUE(content == a || content == b) << content.size();
  }
  writer.join();
}

TEST(MemoryFileTest, StaysForWhoKnowsThePath) {
  const std::string path = MemoryFile::Create("secret").value()->path();
  EXPECT_EQ(ContentOf(path), "secret");
}

}  // namespace
}  // namespace longhaul
