// Explains the fields of a job spec from the comments of proto/longhaul/v1/job.proto, which are
// kept in the program.
#pragma once

#include <string>

#include "coordinator/cli/outcome.h"

namespace longhaul::cli {

// `path`: as "sync.up.codec"; empty: the whole spec. The table is `columns` wide. JSON: {path,
// type, description, fields: [{name, type, repeated, one_of, description}], values: [{name,
// description}]}. A usage error names the nearest field.
Outcome SpecExplain(const std::string& path, int columns);

}  // namespace longhaul::cli
