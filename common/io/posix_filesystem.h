// The machine's file system, by plain system calls.
#pragma once

#include <memory>
#include <string>

#include "common/io/filesystem.h"

namespace longhaul {

// Paths are those of the process. SyncDir succeeds also where the file system cannot sync folders
// (CanSyncFolders): when names become durable there is up to it.
std::unique_ptr<FileSystem> MakePosixFileSystem();

// Whether names in the folder can be made durable. False: its file system has no such call, so a
// failure of power may lose the names of new files. Blocks on the disk.
bool CanSyncFolders(const std::string& path);

}  // namespace longhaul
