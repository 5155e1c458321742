#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/bytes_text.h"
#include "common/base/counted.h"
#include "common/wire/proto_values.h"
#include "coordinator/cli/message_json.h"
#include "coordinator/cli/text.h"
#include "coordinator/cli/views.h"

namespace longhaul::cli {
namespace {

// An older coordinator sends the id alone.
std::string JobOf(const v1::Pool& pool) {
  if (!pool.job().empty()) return pool.job();
  return pool.job_id().empty() ? "-" : pool.job_id();
}

bool CountsTokens(const v1::Pool& pool) {
  return pool.unit_name().empty() || pool.unit_name() == "tokens";
}

}  // namespace

Json PoolsJson(const v1::ListPoolsResponse& pools) { return MessagesToJson(pools.pools()); }

std::string PoolsTable(const v1::ListPoolsResponse& pools, TableWidth width) {
  const bool all_tokens = std::all_of(pools.pools().begin(), pools.pools().end(), CountsTokens);
  std::vector<std::vector<std::string>> rows;
  for (const v1::Pool& pool : pools.pools()) {
    rows.push_back(
        {pool.name(), EnumName(pool.state(), "STATE"), absl::StrCat(pool.ranks()),
         v1::Device_Name(pool.device()), JobOf(pool),
         pool.has_progress() ? absl::StrCat(pool.progress().inner_step()) : "-",
         pool.has_progress() ? absl::StrCat(CountText(pool.progress().tokens_per_second()),
                                            all_tokens           ? ""
                                            : CountsTokens(pool) ? " tokens"
                                                                 : " " + pool.unit_name())
                             : "-",
         DurationText(DurationFromProto(pool.lease_left())),
         pool.nodes_size() > 1 ? absl::StrCat(pool.nodes_size(), " nodes") : pool.host()});
  }
  std::string text = FittedTable({{"NAME", CellFit::kName},
                                  {"STATE"},
                                  {"RANKS"},
                                  {"DEVICE"},
                                  {"JOB", CellFit::kName},
                                  {"STEP"},
                                  {all_tokens ? "TOKENS/S" : "PER SECOND"},
                                  {"LEASE"},
                                  {"HOST", CellFit::kName}},
                                 rows, width);
  for (const v1::Pool& pool : pools.pools()) {
    if (!pool.waiting_for().empty())
      absl::StrAppend(&text, Printable(pool.name()), " waits for ", Printable(pool.waiting_for()),
                      "\n");
    for (const v1::Node& node : pool.nodes()) {
      absl::StrAppend(
          &text, Printable(pool.name()), " node ", node.node(), ": ",
          node.here() ? absl::StrCat(Printable(node.address()), ", ", Counted(node.ranks(), "rank"),
                                     ", host ", Printable(node.host()))
                      : "not here",
          "\n");
    }
    absl::StrAppend(&text, SetAsideText(pool.set_aside(), pool.set_aside_left_out()));
  }
  return text;
}

Json CheckpointsJson(const v1::ListCheckpointsResponse& checkpoints) {
  return MessagesToJson(checkpoints.checkpoints());
}

std::string CheckpointsTable(const v1::ListCheckpointsResponse& checkpoints, TableWidth width) {
  std::vector<std::vector<std::string>> rows;
  for (const v1::CheckpointManifest& checkpoint : checkpoints.checkpoints()) {
    int64_t elements = 0;
    for (const v1::CheckpointFragment& fragment : checkpoint.fragments())
      elements += fragment.elements();
    rows.push_back({absl::StrCat(checkpoint.step()), checkpoint.final() ? "yes" : "no",
                    absl::FormatTime("%Y-%m-%d %H:%M:%SZ", TimeFromProto(checkpoint.created_at()),
                                     absl::UTCTimeZone()),
                    BytesText(4 * elements), checkpoint.path()});
  }
  std::string text = FittedTable(
      {{"STEP"}, {"FINAL"}, {"CREATED"}, {"SIZE"}, {"PATH", CellFit::kPath}}, rows, width);
  if (checkpoints.left_out() > 0)
    absl::StrAppend(&text, "and ", checkpoints.left_out(), " older ones\n");
  return text;
}

}  // namespace longhaul::cli
