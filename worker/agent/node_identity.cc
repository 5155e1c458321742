#include "worker/agent/node_identity.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/names.h"
#include "common/base/status_macros.h"

namespace longhaul {
namespace {

absl::StatusOr<std::optional<int>> NumberIn(const char* name, const char* value, int most) {
  if (value == nullptr || *value == '\0') return std::nullopt;
  int number = 0;
  if (absl::SimpleAtoi(value, &number) && number >= 0 && number <= most) return number;
  return absl::InvalidArgumentError(
      absl::StrCat("the environment's ", name, " is '", value, "', no number up to ", most));
}

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
  const bool nodes_of_flag = nodes.has_value(), node_of_flag = node.has_value();
  if (!nodes_of_flag) {
    LH_ASSIGN_OR_RETURN(nodes, NumberIn("NNODES", variable("NNODES"), kRanksMax));
  }
  NodeIdentity identity{.nodes = nodes.value_or(1)};
  if (identity.nodes < 1 || identity.nodes > kRanksMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(identity.nodes, " nodes are not within 1 to ", kRanksMax));
  }
  if (identity.nodes == 1) {
    if (!node_of_flag || *node == 0) return identity;
    return absl::InvalidArgumentError(absl::StrCat("--node ", *node, " needs --nodes"));
  }
  if (!node_of_flag) {
    LH_ASSIGN_OR_RETURN(node, NumberIn("NODE_RANK", variable("NODE_RANK"), kRanksMax));
  }
  if (node.has_value() && (*node < 0 || *node >= identity.nodes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("node ", *node, " is not within 0 to ", identity.nodes - 1));
  }
  identity.node = node;
  if (node.has_value() || variable("KUBERNETES_SERVICE_HOST") == nullptr) return identity;
  const std::optional<int> ordinal = OrdinalOf(host);
  if (ordinal.has_value() && *ordinal < identity.nodes) identity.node = ordinal;
  return identity;
}

}  // namespace longhaul
