// The machine's file system, by plain system calls.
#pragma once

#include <memory>

#include "common/io/filesystem.h"

namespace longhaul {

// Paths are those of the process.
std::unique_ptr<FileSystem> MakePosixFileSystem();

}  // namespace longhaul
