#include "common/plan/job/machines.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_join.h"

namespace longhaul::plan {
namespace {

constexpr char kCpu[] = "cpu";

constexpr Machine kMachines[] = {
    {"h200", 8, 989, 495, 141, 4800, 450, 450, 50},
    {"h100", 8, 989, 495, 80, 3350, 450, 450, 50},
    {"a100-80g", 8, 312, 156, 80, 2039, 300, 300, 25},
    {"a100-40g", 8, 312, 156, 40, 1555, 300, 300, 25},
    {"mi250x", 8, 191.5, 23.9, 64, 1638, 200, 75, 12.5},
    {"l40s", 4, 362, 183, 48, 864, 25, 25, 12.5},
    {"rtx-4090", 1, 165, 82.6, 24, 1008, 12, 12, 1.25},
    {"rtx-3090", 1, 71, 35.6, 24, 936, 12, 12, 1.25},
    {kCpu, 1, 0, 0, 0, 20, 5, 5, 1.25},
};

}  // namespace

const Machine* FindMachine(absl::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kMachines), std::end(kMachines),
                   [&](const Machine& machine) { return machine.name == name; });
  return found == std::end(kMachines) ? nullptr : found;
}

std::string MachineNames() {
  return absl::StrJoin(kMachines, ", ",
                       [](std::string* out, const Machine& machine) { out->append(machine.name); });
}

}  // namespace longhaul::plan
