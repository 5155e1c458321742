// What every FileSystem does. A backend instantiates the suite with a factory of fresh, empty
// folders.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/io/file_util.h"
#include "common/io/filesystem.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul {

struct FileSystemUnderTest {
  // Keeps everything alive that the file system needs.
  std::shared_ptr<void> owner;
  FileSystem* fs = nullptr;
  // An empty folder.
  std::string root;
};
using FileSystemFactory = std::function<FileSystemUnderTest()>;

class FileSystemSuite : public testing::TestWithParam<FileSystemFactory> {
 protected:
  FileSystemSuite() : under_test_(GetParam()()), fs_(*under_test_.fs) {}
  std::string Path(const std::string& name) const { return JoinPath(under_test_.root, name); }
  std::unique_ptr<File> Create(const std::string& name) { return *fs_.Create(Path(name)); }
  std::string Content(const std::string& name) { return *ReadFile(fs_, Path(name), 1 << 20); }

  FileSystemUnderTest under_test_;
  FileSystem& fs_;
};

}  // namespace longhaul
