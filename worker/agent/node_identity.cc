#include "worker/agent/node_identity.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/counted.h"
#include "common/base/names.h"
#include "common/base/status_macros.h"

namespace longhaul {
namespace {

using Variable = std::function<const char*(const char* name)>;

bool IsSet(const char* value) { return value != nullptr && *value != '\0'; }

// A number of the command line, or else of the environment: of torchrun, or of a step of Slurm.
struct Given {
  Given(const char* flag_name, std::optional<int> flag_value, const char* of_torchrun,
        const char* of_slurm, const Variable& value)
      : flag(flag_name), of_flag(flag_value) {
    for (const char* const name : {of_torchrun, of_slurm}) {
      if (name == nullptr || !IsSet(value(name))) continue;
      variable = name;
      of_variable = value(name);
      return;
    }
  }

  const char* flag;
  std::optional<int> of_flag;
  const char* variable = nullptr;
  const char* of_variable = nullptr;

  std::string By() const {
    return of_flag.has_value() ? flag : absl::StrCat("the environment's ", variable);
  }
  // Empty: nobody gave it. `why` ends the error.
  absl::StatusOr<std::optional<int>> Within(int least, int most, absl::string_view why) const {
    int number = of_flag.value_or(-1);
    if (!of_flag.has_value()) {
      if (of_variable == nullptr) return std::nullopt;
      if (!absl::SimpleAtoi(of_variable, &number)) number = -1;
    }
    if (number >= least && number <= most) return number;
    return absl::InvalidArgumentError(absl::StrCat(
        By(), ": ",
        of_flag.has_value() ? absl::StrCat(number) : absl::StrCat("'", of_variable, "'"),
        " is not within ", least, " to ", most, why));
  }
};

constexpr char kSlurmNodes[] = "SLURM_STEP_NUM_NODES";

// A worker starts all ranks of its node.
absl::Status CheckSlurmTasks(int nodes, const Variable& variable) {
  const char* const tasks = variable("SLURM_STEP_NUM_TASKS");
  int number = 0;
  if (!IsSet(tasks) || !absl::SimpleAtoi(tasks, &number) || number <= nodes)
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "srun starts ", number, " workers on ", Counted(nodes, "node"),
      ": start one on each (--ntasks-per-node=1), and give --ranks for the ranks of a node"));
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
  const bool in_step = IsSet(variable(kSlurmNodes));
  const Given nodes_given("--nodes", nodes, "NNODES", kSlurmNodes, variable);
  LH_ASSIGN_OR_RETURN(nodes, nodes_given.Within(1, kRanksMax, ""));
  NodeIdentity identity{.nodes = nodes.value_or(1)};
  if (!nodes_given.of_flag.has_value() && nodes_given.variable == kSlurmNodes)
    LH_RETURN_IF_ERROR(CheckSlurmTasks(identity.nodes, variable));
  if (identity.nodes == 1) {
    if (node.value_or(0) == 0) return identity;
    return absl::InvalidArgumentError(absl::StrCat("--node ", *node, " needs --nodes"));
  }
  // Outside of a step all workers would find the same number.
  const Given node_given("--node", node, "NODE_RANK", in_step ? "SLURM_NODEID" : nullptr, variable);
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
