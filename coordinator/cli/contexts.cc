#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/connection.h"
#include "coordinator/cli/table.h"
#include "coordinator/cli/text.h"

namespace longhaul::cli {

Outcome ListContexts(const Arguments& arguments, const Environment& environment) {
  const absl::StatusOr<std::vector<Context>> contexts = ContextsOf(arguments, environment);
  if (!contexts.ok()) return UsageError(std::string(contexts.status().message()));
  Json json = Json::array();
  std::string names;
  std::vector<std::vector<std::string>> rows;
  for (const Context& context : *contexts) {
    const Connection& to = context.connection;
    json.push_back({{"name", context.name},
                    {"server", to.server},
                    {"tls", !to.tls.empty()},
                    {"current", context.current}});
    rows.push_back(
        {context.current ? "*" : "", context.name, to.server, to.tls.empty() ? "no" : "yes"});
    absl::StrAppend(&names, Printable(context.name), "\n");
  }
  if (arguments.names) return {std::move(json), std::move(names)};
  if (contexts->empty()) {
    const std::string path = ConfigPath(environment);
    environment.err << "no contexts in " << (path.empty() ? "~/.config/longhaul/config.yaml" : path)
                    << "; `longhaul contexts --help` shows how to write them" << std::endl;
  }
  return {std::move(json), FittedTable({{"CURRENT"}, {"NAME"}, {"SERVER"}, {"TLS"}}, rows)};
}

}  // namespace longhaul::cli
