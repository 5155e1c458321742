#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/bytes_text.h"
#include "common/base/counted.h"
#include "common/plan/job/measured_rates.h"
#include "common/wire/message_json.h"
#include "common/wire/proto_values.h"
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

// "up to 60.1 GFLOP/s of a rank, memory 12 GB/s, between ranks 1.5 GB/s, AdamW 900M parameters/s".
std::string FiguresLine(const v1::HostFigures& figures) {
  double updates = 0;
  for (const v1::KernelFigure& kernel : figures.kernels()) {
    // The last working set is the largest.
    if (kernel.name() == "adamw" && !kernel.rates().empty())
      updates = kernel.rates().rbegin()->elements_per_second();
  }
  std::string text =
      absl::StrFormat("up to %.3g GFLOP/s of a rank", plan::FastestProducts(figures));
  if (figures.memory_gb_per_second() > 0)
    absl::StrAppend(&text, absl::StrFormat(", memory %.3g GB/s", figures.memory_gb_per_second()));
  if (figures.exchange_gb_per_second() > 0) {
    absl::StrAppend(&text,
                    absl::StrFormat(", between ranks %.3g GB/s", figures.exchange_gb_per_second()));
  }
  if (updates > 0) absl::StrAppend(&text, ", AdamW ", CountText(updates), " parameters/s");
  return text;
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
    if (pool.has_figures())
      absl::StrAppend(&text, Printable(pool.name()), " measured: ", FiguresLine(pool.figures()),
                      "\n");
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
