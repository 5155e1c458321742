#include "worker/rank/flags.h"

#include <algorithm>
#include <iostream>

#include "common/command_line/help_page.h"
#include "common/command_line/usage_fault.h"

namespace longhaul {
namespace {

constexpr char kMeasure[] = "--measure";

}  // namespace

std::optional<RankFlags> ParseRankFlags(int argc, char** argv, int* exit_code) {
  RankFlags flags;
  CLI::App app{"One rank of a pool; started by longhaul-worker.", "longhaul-rank"};
  SetHelpPage(app);
  const std::vector<std::string> args(argv + 1, argv + argc);
  const bool trains = std::find(args.begin(), args.end(), kMeasure) == args.end();
  app.add_option("--coordinator", flags.coordinator)->required(trains);
  app.add_option("--pool", flags.pool)->required(trains);
  app.add_option("--incarnation", flags.incarnation)->required(trains);
  app.add_option(kMeasure, flags.measure);
  app.add_option("--node-ranks", flags.node_ranks);
  app.add_option("--measure-until", flags.measure_until);
  app.add_option("--agent", flags.agent);
  app.add_option("--rank", flags.rank);
  app.add_option("--local-rank", flags.local_rank);
  app.add_option("--ranks", flags.ranks);
  app.add_option("--ranks-of-node", flags.ranks_of_node)->delimiter(',');
  app.add_option("--update-rates", flags.update_rates);
  app.add_option("--state-dir", flags.state_dir);
  app.add_option("--state-every", flags.state_every);
  app.add_option("--trace", flags.trace);
  app.add_option("--threads", flags.threads);
  app.add_option("--cpus", flags.cpus);
  app.add_option("--bulk-channels", flags.bulk_channels);
  app.add_option("--push-bytes-per-second", flags.push_bytes_per_second);
  app.add_option("--data-dir", flags.data_dir);
  app.add_option("--work-dir", flags.work_dir);
  app.add_option("--rendezvous", flags.rendezvous);
  app.add_option("--generation", flags.generation);
  app.add_option("--in-pool-address", flags.in_pool_address);
  app.add_option("--in-pool-name", flags.in_pool_name);
  app.add_option("--tls-ca", flags.tls_files.ca);
  app.add_option("--tls-certificate", flags.tls_files.certificate);
  app.add_option("--tls-key", flags.tls_files.key);
  app.add_option("--drain-seconds", flags.drain_seconds);
  app.add_option("--progress-timeout", flags.progress_timeout);
  app.add_option("--progress-factor", flags.progress_factor);
  app.add_option("--log-level", flags.log_level);
  app.add_option("--log-format", flags.log_format);
  const std::optional<int> exit = ParseOrTell(
      app, args, [](const UsageFault& fault) { std::cerr << fault.Text() << std::endl; });
  if (!exit.has_value()) return flags;
  *exit_code = *exit;
  return std::nullopt;
}

}  // namespace longhaul
