// What must hold before a coordinator serves. Mistakes of the flags are found before anything is
// read or made, so that they have no effects.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/io/filesystem.h"
#include "common/logging/logging.h"
#include "coordinator/server/server.h"
#include "coordinator/store/meta_store.h"

namespace longhaul::coordinator {

// INVALID_ARGUMENT: a flag at fault, named in the message; also what would be open to other
// machines and is not allowed explicitly. NOT_FOUND: --import-dir is no folder now. Logs what is
// open.
absl::Status CheckOptions(const CoordinatorServerOptions& options, const Logger& log);

// What --ready-file begins with.
inline constexpr char kReadyMark[] = "grpc=";
// The file is replaced, and removed at the end, so it must be one of an earlier start, or empty.
// INVALID_ARGUMENT: it holds something else, or is no file. NOT_FOUND: its folder is not there.
absl::Status CheckReadyFile(const std::string& path);

// Opens the database of the data folder, or makes both. Blocks on the disk. PERMISSION_DENIED or
// another error of the folder; UNAVAILABLE: another coordinator uses it; DATA_LOSS: it is damaged.
// `operations`: as of SqliteDatabase.
absl::StatusOr<std::unique_ptr<MetaStore>> OpenMeta(FileSystem& fs, const std::string& data_dir,
                                                    SlowOperations* operations);
// Likewise, and logs jobs' folders that the database does not know, or lacks. DATA_LOSS also: the
// database belongs to another data folder.
absl::StatusOr<std::unique_ptr<MetaStore>> OpenDatabase(FileSystem& fs, const std::string& data_dir,
                                                        const Logger& log,
                                                        SlowOperations* operations);

}  // namespace longhaul::coordinator
