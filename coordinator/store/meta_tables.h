// The tables of MetaStore's file, as FORMAT.md describes them.
//
// A later version of the program may add tables: an earlier one of the same schema ignores them, so
// a coordinator may be downgraded. Only a change that earlier versions would misread needs a new
// schema version. Errors: those of SqliteDatabase.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "coordinator/store/sqlite_database.h"

namespace longhaul {

// Values of participant.departed; 0: the pool has its place. Earlier versions wrote 1 for both, and
// take both for the same.
inline constexpr int64_t kDepartedMissed = 1, kDepartedGaveUp = 2;

// Makes the tables in a new file, or adds those that a file of an earlier version lacks.
// FAILED_PRECONDITION: the file at `path` has another schema.
absl::Status PrepareTables(SqliteDatabase& database, const std::string& path);
// The same for a database that is only read: its file is not changed.
absl::Status PrepareToRead(SqliteDatabase& database, const std::string& path);

// NOT_FOUND. `which`: an id, a name, or words that say which job was wanted.
absl::Status NoJob(absl::string_view which);

}  // namespace longhaul
