// `longhaul graph`: graphs as folders on this machine, without a server.
#pragma once

#include "coordinator/cli/outcome.h"

namespace longhaul::cli {

// The command `graph` and its options.
void AddGraph(CLI::App& app, Arguments& arguments);

// `graph import edges`, `ogb` and `graphbolt`. Data: that of ShowGraph, and `warnings`.
Outcome ImportGraphFiles(const Arguments& arguments);

// `graph info`. Data: {path, nodes, edges, columns, classes, direction, duplicates_kept,
// pairs_read, merged_duplicates, dropped_loops, nodes_without_in_edges, labelled, train, valid,
// test, ids, class_names, feature_names, schema_digest, link_schema_digest, content_digest, bytes,
// verified, warnings}.
Outcome ShowGraph(const Arguments& arguments);

}  // namespace longhaul::cli
