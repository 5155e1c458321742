#include "worker/agent/node_identity.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/names.h"
#include "common/base/status_macros.h"

namespace longhaul {
namespace {

// A number of the command line, or else of the environment.
struct Given {
  const char* flag;
  const char* variable;
  std::optional<int> of_flag;
  const char* of_variable;

  std::string By() const {
    return of_flag.has_value() ? flag : absl::StrCat("the environment's ", variable);
  }
  // Empty: nobody gave it. `why` ends the error.
  absl::StatusOr<std::optional<int>> Within(int least, int most, absl::string_view why) const {
    int number = of_flag.value_or(-1);
    if (!of_flag.has_value()) {
      if (of_variable == nullptr || *of_variable == '\0') return std::nullopt;
      if (!absl::SimpleAtoi(of_variable, &number)) number = -1;
    }
    if (number >= least && number <= most) return number;
    return absl::InvalidArgumentError(absl::StrCat(
        By(), ": ",
        of_flag.has_value() ? absl::StrCat(number) : absl::StrCat("'", of_variable, "'"),
        " is not within ", least, " to ", most, why));
  }
};

// The number at the end of a name: 3 for "worker-3".
std::optional<int> OrdinalOf(absl::string_view host) {
  const size_t dash = host.rfind('-');
  if (dash == absl::string_view::npos) return std::nullopt;
  const absl::string_view digits = host.substr(dash + 1);
  int ordinal = 0;
  if (!absl::SimpleAtoi(digits, &ordinal) || absl::StrCat(ordinal) != digits) return std::nullopt;
  return ordinal;
}

}  // namespace

absl::StatusOr<NodeIdentity> IdentifyNode(
    std::optional<int> nodes, std::optional<int> node, const std::string& host,
    const std::function<const char*(const char* name)>& variable) {
  const Given nodes_given{"--nodes", "NNODES", nodes, variable("NNODES")};
  LH_ASSIGN_OR_RETURN(nodes, nodes_given.Within(1, kRanksMax, ""));
  NodeIdentity identity{.nodes = nodes.value_or(1)};
  if (identity.nodes == 1) {
    if (node.value_or(0) == 0) return identity;
    return absl::InvalidArgumentError(absl::StrCat("--node ", *node, " needs --nodes"));
  }
  const Given node_given{"--node", "NODE_RANK", node, variable("NODE_RANK")};
  LH_ASSIGN_OR_RETURN(node, node_given.Within(0, identity.nodes - 1,
                                              absl::StrCat(", since the pool has ", identity.nodes,
                                                           " nodes (", nodes_given.By(), ")")));
  identity.node = node;
  if (node.has_value() || variable("KUBERNETES_SERVICE_HOST") == nullptr) return identity;
  const std::optional<int> ordinal = OrdinalOf(host);
  if (ordinal.has_value() && *ordinal < identity.nodes) identity.node = ordinal;
  return identity;
}

}  // namespace longhaul
